// A run-DAG as its stages, alone or with a second one beside it.
import { useState } from "preact/hooks";
import { type Schemas } from "../api/client.ts";
import { useGet } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { number, shortHash } from "../words.ts";
import { AsOf } from "./marks.tsx";
import { RecordsCompared, RecordText } from "./sidebyside.tsx";
import { Sources } from "./sources.tsx";
import { firstDiverging, pairs, runCause, stageWords, verdict, type Pair, type Stage } from "./stages.ts";
import { Loads } from "./states.tsx";
import { Line } from "./text.tsx";
import { Time } from "./time.tsx";

/** RunEvent has the members of a run-DAG's event that the pages show. */
export interface RunEvent {
  nodes: Stage[];
  run_id?: string;
  shape?: string;
  audit_mode?: string;
  verifier_method?: string;
  failure_stage?: string | null;
  n_quotes?: number;
  n_verified?: number;
  n_sources?: number;
  document_roots?: string[];
  cache_dimensions?: Record<string, string | null>;
  content?: Record<string, { sha256: string; size: number }>;
}

export function runOf(row: Schemas["RecordRow"]): RunEvent {
  return row.event.record as unknown as RunEvent;
}

export function useRun(seq: number) {
  const place = usePlace();
  return useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq }, { as_of: asOf(place) });
}

const answers = ["answer_text", "rendered_text", "raw_answer_text"];

/** answerName is the content that has the answer of a run. */
export function answerName(run: RunEvent): string | undefined {
  return answers.find((name) => run.content?.[name]);
}

/** RunName leads to a run. */
export function RunName({ seq, run }: { seq: number; run: string | null | undefined }) {
  const link = useLink();
  return <a href={link("run-dag", [seq])}>{run ? <Line text={run} most={50} /> : `answer run ${number(seq)}`}</a>;
}

/** RunsBeside compares two runs: why they diverge, their answers, and their stages. */
export function RunsBeside({ ledger, a, b }: { ledger: string; a: number; b: number }) {
  const place = usePlace();
  const compared = useGet("/v1/ledgers/{ledger}/run-dags/compare", { ledger }, { a, b, as_of: asOf(place) });
  const left = useRun(a), right = useRun(b);
  return (
    <Loads of={compared} lines={2}>
      {(change) => (
        <Loads of={left} lines={8}>{(first) => (
          <Loads of={right} lines={8}>{(second) => <Beside ledger={ledger} change={change} left={{ row: first, run: runOf(first) }} right={{ row: second, run: runOf(second) }} />}</Loads>
        )}</Loads>
      )}
    </Loads>
  );
}

interface Side {
  row: Schemas["RecordRow"];
  run: RunEvent;
}

function Beside({ ledger, change, left, right }: { ledger: string; change: Schemas["RunComparison"]; left: Side; right: Side }) {
  const list = pairs(left.run.nodes, right.run.nodes);
  const first = firstDiverging(list);
  const differing = list.filter((one) => one.state !== "same").length;
  const at = change.first_diverging_stage;
  const firstName = answerName(left.run), secondName = answerName(right.run);
  return (
    <>
      <section class="why">
        <p class="sentence">
          {at === null ? "The two runs are the same at every stage."
            : at === "outcome" ? "One run was rejected, and the other one was answered, although the question was the same."
            : <>The runs part at <strong>{stageWords(at).title.toLowerCase()}</strong>{stageWords(at).means && `, that is, ${stageWords(at).means}`}. {number(differing)} of {number(list.length)} stages differ.</>}
          {" "}{at !== null && runCause(change.cause, change.differing_dimensions ?? [])}
        </p>
      </section>
      <section>
        <h2>The answers</h2>
        {firstName !== undefined && firstName === secondName
          ? <RecordsCompared ledger={ledger} from={left.row.seq} to={right.row.seq} of={firstName} a={<Caption side={left} which="first" />} b={<Caption side={right} which="second" />} />
          : (
            <div class="sides">
              {[left, right].map((side, i) => {
                const name = answerName(side.run);
                return (
                  <figure key={side.row.seq} class="side">
                    <figcaption><Caption side={side} which={i === 0 ? "first" : "second"} /></figcaption>
                    {name === undefined ? <p class="note">{side.run.shape === "reject" ? "This run was rejected before it was answered." : "The answer was not posted as a text."}</p> : <RecordText ledger={ledger} seq={side.row.seq} name={name} label="Answer" />}
                  </figure>
                );
              })}
            </div>
          )}
      </section>
      <section>
        <h2>The stages</h2>
        <div class="dag-heads" aria-hidden="true"><span>first run</span><span /><span>second run</span></div>
        <ol class="dag">{list.map((pair, i) => <StageRow key={`${pair.stage} ${pair.nth}`} pair={pair} diverges={i === first} after={first >= 0 && i > first} left={left} right={right} ledger={ledger} />)}</ol>
      </section>
      <AsOf size={change.as_of} />
    </>
  );
}

function Caption({ side, which }: { side: Side; which: string }) {
  return <>{which} run: <RunName seq={side.row.seq} run={side.run.run_id} />, <Time at={side.row.time} />; {verdict(side.run)}</>;
}

const states = { same: "the same", differs: "different", "only-a": "only in the first", "only-b": "only in the second" };

/** texts are the contents from which a stage was hashed. */
const texts: Record<string, string[]> = {
  question: ["question"], preflight: ["preflight_payload"], answer: ["answer_text"], raw_answer: ["raw_answer_text"], render: ["rendered_text"], prompt: ["messages"],
};

function StageRow({ pair, diverges, after, left, right, ledger }: { pair: Pair; diverges: boolean; after: boolean; left: Side; right: Side; ledger: string }) {
  const [open, setOpen] = useState(false);
  const known = stageWords(pair.stage);
  const name = (texts[pair.stage] ?? []).find((one) => left.run.content?.[one] ?? right.run.content?.[one]);
  return (
    <li class={`dag-stage dag-${pair.state}${diverges ? " dag-first" : ""}${after ? " dag-after" : ""}`}>
      {diverges && <p class="dag-mark">Here the runs part</p>}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class={`dag-dot${pair.a === undefined ? " dag-none" : ""}`} aria-hidden="true" />
          <span class="dag-title"><strong>{known.title}</strong>{pair.nth > 1 && ` ${pair.nth}`} <span class="dag-state">{states[pair.state]}</span>{known.means && <span class="dag-means">{known.means}</span>}</span>
          <span class={`dag-dot${pair.b === undefined ? " dag-none" : ""}`} aria-hidden="true" />
        </summary>
        {open && (
          <div class="dag-inside">
            {name !== undefined && pair.state === "differs" && <RecordsCompared ledger={ledger} from={left.row.seq} to={right.row.seq} of={name} a="first run" b="second run" />}
            {name !== undefined && pair.state !== "differs" && <RecordText ledger={ledger} seq={pair.a !== undefined ? left.row.seq : right.row.seq} name={name} label={known.title} />}
            {(pair.stage === "retrieval" || pair.stage === "context" || pair.stage === "evidence_map") && <Sources ledger={ledger} a={left.run.document_roots} b={right.run.document_roots} />}
            {pair.stage === "verify" && <p>First run: {verdict(left.run)}{checked(left.run)}. Second run: {verdict(right.run)}{checked(right.run)}.</p>}
            {name === undefined && !["retrieval", "context", "evidence_map", "verify"].includes(pair.stage) && <p class="note">The ledger has only the hash of this stage.</p>}
            <p class="quiet small">{pair.a === pair.b ? <code title={pair.a}>{shortHash(pair.a ?? "")}</code> : <><code title={pair.a}>{pair.a === undefined ? "none" : shortHash(pair.a)}</code> → <code title={pair.b}>{pair.b === undefined ? "none" : shortHash(pair.b)}</code></>}</p>
          </div>
        )}
      </details>
    </li>
  );
}

export function checked(run: RunEvent): string {
  return run.n_quotes === undefined || run.n_verified === undefined || run.n_quotes === 0 ? "" : ` (${number(run.n_verified)} of ${number(run.n_quotes)} quotes hold)`;
}

/** RunStages draws one run as its stages. */
export function RunStages({ ledger, row }: { ledger: string; row: Schemas["RecordRow"] }) {
  const run = runOf(row);
  const side = { row, run };
  const list = pairs(run.nodes, run.nodes);
  return <ol class="dag dag-alone">{list.map((pair) => <StageAlone key={`${pair.stage} ${pair.nth}`} pair={pair} side={side} ledger={ledger} failed={run.failure_stage === pair.stage} />)}</ol>;
}

function StageAlone({ pair, side, ledger, failed }: { pair: Pair; side: Side; ledger: string; failed: boolean }) {
  const [open, setOpen] = useState(false);
  const known = stageWords(pair.stage);
  const name = (texts[pair.stage] ?? []).find((one) => side.run.content?.[one]);
  return (
    <li class={`dag-stage dag-same${failed ? " dag-first" : ""}`}>
      {failed && <p class="dag-mark">Here the run failed</p>}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary><span class="dag-dot" aria-hidden="true" /><span class="dag-title"><strong>{known.title}</strong>{pair.nth > 1 && ` ${pair.nth}`}{known.means && <span class="dag-means">{known.means}</span>}</span></summary>
        {open && (
          <div class="dag-inside">
            {name !== undefined && <RecordText ledger={ledger} seq={side.row.seq} name={name} label={known.title} />}
            {(pair.stage === "retrieval" || pair.stage === "context" || pair.stage === "evidence_map") && <Sources ledger={ledger} a={side.run.document_roots} b={side.run.document_roots} />}
            {pair.stage === "verify" && <p>{verdict(side.run)}{checked(side.run)}</p>}
            <p class="quiet small"><code>{pair.a}</code></p>
          </div>
        )}
      </details>
    </li>
  );
}
