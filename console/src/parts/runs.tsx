// A run-DAG as its stages, alone or with a second one beside it.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { content, get, Problem, type Schemas } from "../api/client.ts";
import { useGet, useLoad, type Loading } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { number, shortHash } from "../words.ts";
import { AsOf } from "./marks.tsx";
import { TextsCompared } from "./sidebyside.tsx";
import { Sources } from "./sources.tsx";
import { firstDiverging, inputsOf, pairs, rejection, restsOnSources, runCause, scoredIn, stageText, stageWords, verdict, type Inputs, type Pair, type Scored, type Stage } from "./stages.ts";
import { Loads } from "./states.tsx";
import { Line, Text } from "./text.tsx";
import { Time } from "./time.tsx";

/** RunEvent has the members of a run-DAG's event that the pages show. */
interface RunEvent {
  nodes: Stage[];
  run_id?: string;
  shape?: string;
  audit_mode?: string;
  failure_stage?: string | null;
  n_quotes?: number;
  n_verified?: number;
  document_roots?: string[];
  content?: Record<string, unknown>;
}

/** Run is a run-DAG with those of its texts that the reader may see. */
export interface Run extends RunEvent {
  row: Schemas["RecordRow"];
  question: string | undefined;
  answer: string | undefined;
  inputs: Inputs;
  hidden: boolean; // texts exist that the reader may not see
}

/** readable loads a text of a record. It is undefined if the record has none, if it was erased, or if the reader may not see it. */
async function readable(ledger: string, seq: number, name: string, signal: AbortSignal): Promise<{ text?: string; hidden: boolean }> {
  try {
    return { text: (await content(ledger, seq, name, signal)).text, hidden: false };
  } catch (error) {
    if (error instanceof Problem && (error.status === 403 || error.status === 404 || error.status === 410)) return { hidden: error.status === 403 };
    throw error;
  }
}

export async function loadRun(ledger: string, seq: number, size: number | undefined, signal: AbortSignal): Promise<Run | undefined> {
  const row = await get("/v1/ledgers/{ledger}/records/{seq}", { ledger, seq }, { as_of: size }, signal);
  if (row.kind !== "run_dag") return undefined;
  const run = row.event.record as unknown as RunEvent;
  const names = Object.keys(run.content ?? {});
  const inputs = names.find((name) => name === "inputs" || name === "reject_inputs");
  const [posted, question, answer] = await Promise.all([
    inputs === undefined ? { hidden: false } : readable(ledger, seq, inputs, signal),
    names.includes("question") ? readable(ledger, seq, "question", signal) : { hidden: false },
    names.includes("answer_text") ? readable(ledger, seq, "answer_text", signal) : { hidden: false },
  ]);
  const parsed = "text" in posted && posted.text !== undefined ? inputsOf(posted.text) : {};
  if (names.includes("messages") && parsed.messages === undefined) {
    const messages = await readable(ledger, seq, "messages", signal);
    if (messages.text !== undefined) parsed.messages = inputsOf(`{"messages":${messages.text}}`).messages;
  }
  return {
    ...run, row, inputs: parsed, question: "text" in question ? question.text : undefined,
    answer: "text" in answer ? answer.text : run.shape === "reject" ? undefined : stageText("answer", parsed) ?? stageText("render", parsed) ?? stageText("raw_answer", parsed),
    hidden: posted.hidden || question.hidden || answer.hidden,
  };
}

export function useRun(ledger: string, seq: number): Loading<Run | undefined> {
  const place = usePlace();
  return useLoad(`${ledger} run-dag ${seq} ${asOf(place) ?? ""}`, (signal) => loadRun(ledger, seq, asOf(place), signal));
}

/** RunName leads to a run. */
export function RunName({ seq, run }: { seq: number; run: string | null | undefined }) {
  const link = useLink();
  return <a href={link("run-dag", [seq])}>{run ? <Line text={run} most={50} /> : `answer run ${number(seq)}`}</a>;
}

/** RunsBeside compares two runs: why they diverge, their answers, and their stages. */
export function RunsBeside({ ledger, a, b, head }: { ledger: string; a: number; b: number; head?: (run: Run) => ComponentChildren }) {
  const place = usePlace();
  const compared = useGet("/v1/ledgers/{ledger}/run-dags/compare", { ledger }, { a, b, as_of: asOf(place) });
  const left = useRun(ledger, a), right = useRun(ledger, b);
  return (
    <Loads of={left} lines={8}>{(first) => (
      <Loads of={right} lines={8}>{(second) => (
        <Loads of={compared} lines={2}>{(change) => first && second && (
          <>
            {head?.(first)}
            <Beside change={change} left={first} right={second} ledger={ledger} />
          </>
        )}</Loads>
      )}</Loads>
    )}</Loads>
  );
}

function Beside({ ledger, change, left, right }: { ledger: string; change: Schemas["RunComparison"]; left: Run; right: Run }) {
  const list = pairs(left.nodes, right.nodes);
  const first = firstDiverging(list);
  const differing = list.filter((one) => one.state !== "same").length;
  const at = change.first_diverging_stage;
  return (
    <>
      <section class="why"><p class="sentence">
        {at === null ? "The two runs are the same at every stage."
          : at === "outcome" ? "One run was rejected, and the other one was answered, although the question was the same."
          : <>The runs diverge at <strong>{stageWords(at).title.toLowerCase()}</strong>{stageWords(at).means && `: ${stageWords(at).means}`}. {number(differing)} of {number(list.length)} stages differ.</>}
        {" "}{[left, right].map((run) => rejection(run.inputs)).filter((reason) => reason !== undefined).map((reason) => <span key={reason}>The reason of the rejection is: <strong><Line text={reason} most={300} /></strong>. </span>)}
        {at !== null && runCause(change.cause, change.differing_dimensions ?? [])}
      </p></section>
      <section>
        <h2>The answers</h2>
        {left.answer !== undefined && right.answer !== undefined
          ? <TextsCompared before={left.answer} after={right.answer} a={<Caption run={left} which="First" />} b={<Caption run={right} which="Second" />} />
          : <div class="sides"><Answer run={left} which="First" /><Answer run={right} which="Second" /></div>}
      </section>
      <section>
        <h2>The stages</h2>
        <div class="dag-heads" aria-hidden="true"><span>first run</span><span>second run</span></div>
        <ol class="dag">{list.map((pair, i) => <StageRow key={`${pair.stage} ${pair.nth}`} pair={pair} mark={i === first ? "Here the runs diverge" : undefined} left={left} right={right} ledger={ledger} />)}</ol>
      </section>
      <div class="once"><AsOf size={change.as_of} /></div>
    </>
  );
}

function Caption({ run, which }: { run: Run; which: string }) {
  return <>{which} run: <RunName seq={run.row.seq} run={run.run_id} />, <Time at={run.row.time} />, {verdict(run)}</>;
}

function Answer({ run, which }: { run: Run; which: string }) {
  return <figure class="side"><figcaption><Caption run={run} which={which} /></figcaption><AnswerText run={run} /></figure>;
}

/** AnswerText shows the answer of a run, or says why there is none. */
export function AnswerText({ run }: { run: Run }) {
  if (run.answer !== undefined) return <Text text={run.answer} label="The answer" />;
  const reason = rejection(run.inputs);
  if (run.shape === "reject") return <p class="note">This run was rejected before it was answered{reason !== undefined && <>: <Line text={reason} most={300} /></>}.</p>;
  return <p class="note">{run.hidden ? "Your token may not read texts. Sign in with one that has the scope content." : "The text of the answer is not in the ledger."}</p>;
}

const states = { same: "the same", differs: "different", "only-a": "only in the first run", "only-b": "only in the second run" };

function StageRow({ pair, mark, left, right, ledger }: { pair: Pair; mark: string | undefined; left: Run; right: Run; ledger: string }) {
  const [open, setOpen] = useState(mark !== undefined);
  const known = stageWords(pair.stage);
  return (
    <li class={`dag-stage dag-${pair.state}${mark === undefined ? "" : " dag-first"}`}>
      {mark !== undefined && <p class="dag-mark">{mark}</p>}
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class={`dag-dot${pair.a === undefined ? " dag-none" : ""}`} aria-hidden="true" />
          <span class="dag-title"><strong>{known.title}</strong>{pair.nth > 1 && ` ${pair.nth}`} <span class="dag-state">{states[pair.state]}</span>{known.means && <span class="dag-means">{known.means}</span>}</span>
          <span class={`dag-dot${pair.b === undefined ? " dag-none" : ""}`} aria-hidden="true" />
        </summary>
        {open && <div class="dag-inside"><StageContent pair={pair} left={left} right={right} ledger={ledger} /></div>}
      </details>
    </li>
  );
}

function textOf(stage: string, run: Run): string | undefined {
  return stage === "question" ? run.question : stage === "answer" ? run.answer : stageText(stage, run.inputs);
}

function documents(run: Run): Scored[] {
  const scored = scoredIn(run.inputs);
  return scored.length > 0 ? scored : (run.document_roots ?? []).map((root) => ({ root, score: undefined }));
}

/** StageContent shows what a stage was hashed from, in both runs. */
function StageContent({ pair, left, right, ledger }: { pair: Pair; left: Run; right: Run; ledger: string }) {
  const a = pair.a === undefined ? undefined : textOf(pair.stage, left), b = pair.b === undefined ? undefined : textOf(pair.stage, right);
  const hashes = <p class="quiet small">{pair.a === pair.b ? <>hash <code title={pair.a}>{shortHash(pair.a ?? "")}</code></> : <>hashes <code title={pair.a}>{pair.a === undefined ? "none" : shortHash(pair.a)}</code> and <code title={pair.b}>{pair.b === undefined ? "none" : shortHash(pair.b)}</code></>}</p>;
  if (restsOnSources(pair.stage)) return <><Sources ledger={ledger} a={pair.a === undefined ? undefined : documents(left)} b={pair.b === undefined ? undefined : documents(right)} />{hashes}</>;
  const only = a ?? b;
  return (
    <>
      {only === undefined ? <p class="note">{left.hidden || right.hidden ? "Your token may not read what this stage was made of." : "The ledger has only the hash of this stage."}</p>
        : pair.state === "differs" && a !== undefined && b !== undefined ? <TextsCompared before={a} after={b} a="first run" b="second run" />
        : <Text text={only} label={stageWords(pair.stage).title} />}
      {hashes}
    </>
  );
}

/** RunStages draws one run as its stages. */
export function RunStages({ ledger, run }: { ledger: string; run: Run }) {
  return <ol class="dag dag-alone">{pairs(run.nodes, run.nodes).map((pair) => <StageAlone key={`${pair.stage} ${pair.nth}`} pair={pair} run={run} ledger={ledger} failed={run.failure_stage === pair.stage} />)}</ol>;
}

function StageAlone({ pair, run, ledger, failed }: { pair: Pair; run: Run; ledger: string; failed: boolean }) {
  const [open, setOpen] = useState(false);
  const known = stageWords(pair.stage);
  return (
    <li class={`dag-stage dag-same${failed ? " dag-first" : ""}`}>
      {failed && <p class="dag-mark">Here the run failed</p>}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary><span class="dag-dot" aria-hidden="true" /><span class="dag-title"><strong>{known.title}</strong>{pair.nth > 1 && ` ${pair.nth}`}{known.means && <span class="dag-means">{known.means}</span>}</span></summary>
        {open && <div class="dag-inside"><StageContent pair={{ ...pair, state: "same" }} left={run} right={run} ledger={ledger} /></div>}
      </details>
    </li>
  );
}
