import { content } from "../api/client.ts";
import { useLoad } from "../api/load.ts";
import { useLink, usePlace } from "../router.ts";
import { answerName, RunsBeside, RunStages, runOf, useRun } from "../parts/runs.tsx";
import { AsOf, StateChip } from "../parts/marks.tsx";
import { RecordText } from "../parts/sidebyside.tsx";
import { verdict } from "../parts/stages.ts";
import { Empty, Loads } from "../parts/states.tsx";
import { Line, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { number } from "../words.ts";

/** RunDAGPage shows one run of a question: the question, the answer, and its stages; or two runs beside each other. */
export function RunDAGPage() {
  const place = usePlace();
  const seq = Number(place.rest[0]), beside = place.query.get("beside");
  if (!Number.isSafeInteger(seq) || seq < 0) return <Empty title="This is not the number of an event">Numbers begin at 0. Use the search above to find a run.</Empty>;
  return <RunDAG key={seq} seq={seq} beside={beside !== null && /^\d{1,15}$/.test(beside) ? Number(beside) : undefined} />;
}

function RunDAG({ seq, beside }: { seq: number; beside: number | undefined }) {
  const place = usePlace(), link = useLink();
  const loading = useRun(seq);
  const question = useLoad(`${place.ledger} ${seq} question`, (signal) => content(place.ledger, seq, "question", signal));
  return (
    <Loads of={loading} lines={10}>
      {(row) => {
        if (row.kind !== "run_dag") return <Empty title="This event is no answer run"><a href={link("record", [seq])}>See what it is</a></Empty>;
        const run = runOf(row), name = answerName(run), hash = row.hashes.question_hash;
        return (
          <>
            <header class="page-head">
              <p class="eyebrow">answer run {number(seq)} <StateChip state={row.state} /></p>
              <h1>{question.state === "ready" ? <Line text={question.value.text} most={160} /> : run.run_id ? <Line text={run.run_id} /> : "A question whose text you cannot read"}</h1>
              <p class="quiet">{run.run_id && <><Line text={run.run_id} /> · </>}recorded <Time at={row.time} exact /> · {verdict(run)}</p>
              {question.state === "ready" && question.value.text.length > 160 && <Text text={question.value.text} valid={question.value.valid} label="The question" />}
            </header>
            {beside !== undefined ? <RunsBeside ledger={place.ledger} a={seq} b={beside} /> : (
              <>
                <section><h2>The answer</h2>{name === undefined ? <p class="note">{run.shape === "reject" ? "This run was rejected before it was answered." : "The answer was not posted as a text."}</p> : <RecordText ledger={place.ledger} seq={seq} name={name} label="Answer" />}</section>
                <section><h2>How it came about</h2><RunStages ledger={place.ledger} row={row} /></section>
                <p>{typeof hash === "string" && <><a href={link("runs", [hash])}>All runs of this question</a> · </>}<a href={link("record", [seq])}>Its record, checks, and proof</a></p>
                <AsOf size={row.as_of} />
              </>
            )}
          </>
        );
      }}
    </Loads>
  );
}
