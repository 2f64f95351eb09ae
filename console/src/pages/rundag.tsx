import { useLink, usePlace } from "../router.ts";
import { AnswerText, RunClaims, RunsBeside, RunStages, useRun, type Run } from "../parts/runs.tsx";
import { AsOf, StateChip } from "../parts/marks.tsx";
import { verdict } from "../parts/stages.ts";
import { Empty, Loads } from "../parts/states.tsx";
import { Line, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { number } from "../words.ts";

/** RunDAGPage shows one run of a question: the question, the answer, and its stages; or two runs beside each other. */
export function RunDAGPage() {
  const place = usePlace();
  const seq = Number(place.rest[0]), beside = place.query.get("beside");
  if (!Number.isSafeInteger(seq) || seq < 0) return <Empty page title="This is not the number of an event">Numbers begin at 0. Use the search above to find a run.</Empty>;
  if (beside !== null && /^\d{1,15}$/.test(beside)) return <RunsBeside ledger={place.ledger} a={seq} b={Number(beside)} head={(run) => <Head run={run} />} />;
  return <RunDAG key={seq} seq={seq} />;
}

/** Head names a run by its question. */
function Head({ run }: { run: Run }) {
  const seq = run.row.seq;
  return (
    <header class="page-head">
      <p class="eyebrow">answer run {number(seq)} <StateChip state={run.row.state} /></p>
      <h1>{run.question !== undefined ? <Line text={run.question} most={160} /> : run.run_id ? <Line text={run.run_id} /> : "A question whose text you cannot read"}</h1>
      <p class="quiet">{run.run_id && <><Line text={run.run_id} /> · </>}recorded <Time at={run.row.time} exact /> · {verdict(run)}</p>
      {run.question !== undefined && run.question.length > 160 && <Text text={run.question} label="The question" />}
    </header>
  );
}

function RunDAG({ seq }: { seq: number }) {
  const place = usePlace(), link = useLink();
  const loading = useRun(place.ledger, seq);
  return (
    <Loads page of={loading} lines={10}>
      {(run) => {
        if (!run) return <Empty page title="This event is not an answer run"><a href={link("record", [seq])}>See what it is</a></Empty>;
        const hash = run.row.hashes.question_hash;
        return (
          <>
            <Head run={run} />
            <section><h2>The answer</h2><AnswerText run={run} /></section>
            <RunClaims run={run} />
            <section><h2>The stages</h2><RunStages ledger={place.ledger} run={run} /></section>
            <p>{typeof hash === "string" && <><a href={link("runs", [hash])}>All runs of this question</a> · </>}<a href={link("record", [seq])}>Record, checks, and proof</a></p>
            <AsOf size={run.row.as_of} />
          </>
        );
      }}
    </Loads>
  );
}
