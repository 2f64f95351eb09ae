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
import { claimWords, contradictions, firstDiverging, inputsOf, pairs, rejection, restsOnSources, runCause, scoredIn, stageText, stageWords, verdict, type Inputs, type Pair, type Scored, type Stage } from "./stages.ts";
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
  row: Schemas["RecordAnswer"];
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
          : at === "outcome" ? "One run was rejected, and the other was answered, although the question was the same."
          : <>The runs diverge at <strong>{stageWords(at).title.toLowerCase()}</strong>{stageWords(at).means && `: ${stageWords(at).means}`}. {number(differing)} of {number(list.length)} stages differ.</>}
        {" "}{[left, right].map((run) => rejection(run.inputs)).filter((reason) => reason !== undefined).map((reason) => <span key={reason}>The service gave this reason for the rejection: <strong><Line text={reason} most={300} /></strong>. </span>)}
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
        <ol class="dag">{list.map((pair, i) => <StageRow key={`${pair.stage} ${pair.nth}`} pair={pair} mark={i === first ? "The runs diverge here" : undefined} after={[nextOf(list, i, "a"), nextOf(list, i, "b")]} left={left} right={right} ledger={ledger} />)}</ol>
      </section>
      <div class="once"><AsOf size={change.as_of} /></div>
    </>
  );
}

/** nextOf names the stage of one side that follows the stage i, if there is one. */
function nextOf(list: readonly Pair[], i: number, side: "a" | "b"): string | undefined {
  const next = list.slice(i + 1).find((one) => one[side] !== undefined);
  return next && stageWords(next.stage).title;
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
  return <p class="note">{run.hidden ? "Your token does not permit reading texts. Sign in with one that has the scope content." : "The text of the answer is not in the ledger."}</p>;
}

const states = { same: "the same", differs: "different", "only-a": "only in the first run", "only-b": "only in the second run" };

function StageRow({ pair, mark, after, left, right, ledger }: { pair: Pair; mark: string | undefined; after: Sides<string | undefined>; left: Run; right: Run; ledger: string }) {
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
        {open && <div class="dag-inside"><StageBeside pair={pair} after={after} left={left} right={right} ledger={ledger} /></div>}
      </details>
    </li>
  );
}

function textOf(stage: string, run: Run): string | undefined {
  if (stage === "question") return run.question;
  if (stage === "answer") return run.answer;
  return stageText(stage, run.inputs) ?? (stage === "final_label" ? run.audit_mode : undefined);
}

function documents(run: Run): Scored[] {
  const scored = scoredIn(run.inputs);
  return scored.length > 0 ? scored : (run.document_roots ?? []).map((root) => ({ root, score: undefined }));
}

type Sides<T> = readonly [a: T, b: T];

function Hash({ of }: { of: string | undefined }) {
  return <code title={of}>{of === undefined ? "none" : shortHash(of)}</code>;
}

function NoText({ run }: { run: Run }) {
  return <p class="note">{run.hidden ? "Your token does not permit reading what this stage was computed from." : "The ledger has only the hash of this stage."}</p>;
}

/** StageContent shows what a stage of one run was hashed from. */
function StageContent({ stage, hash, run, ledger }: { stage: string; hash: string; run: Run; ledger: string }) {
  const text = textOf(stage, run);
  return (
    <>
      {restsOnSources(stage) ? <Sources ledger={ledger} a={documents(run)} b={undefined} /> : text === undefined ? <NoText run={run} /> : <Text text={text} label={stageWords(stage).title} />}
      <p class="quiet small">hash <Hash of={hash} /></p>
    </>
  );
}

/** StageBeside shows what a stage of two runs was hashed from. A side that lacks the stage, or whose text is not known, says so. */
function StageBeside({ pair, after, left, right, ledger }: { pair: Pair; after: Sides<string | undefined>; left: Run; right: Run; ledger: string }) {
  const { stage, a, b } = pair;
  if (a !== undefined && a === b) return <StageContent stage={stage} hash={a} run={textOf(stage, left) === undefined ? right : left} ledger={ledger} />;
  const hashes = <p class="quiet small">hashes <Hash of={a} /> and <Hash of={b} /></p>;
  if (a !== undefined && b !== undefined) {
    if (restsOnSources(stage)) return <><Sources ledger={ledger} a={documents(left)} b={documents(right)} />{hashes}</>;
    const before = textOf(stage, left), now = textOf(stage, right);
    if (before !== undefined && now !== undefined) return <><TextsCompared before={before} after={now} a="first run" b="second run" />{hashes}</>;
  }
  return (
    <div class="sides">
      {([[left, a, after[0], "first run"], [right, b, after[1], "second run"]] as const).map(([run, hash, next, name]) => (
        <div key={name} class="side">
          <p class="quiet small">{name}</p>
          {hash === undefined ? <p class="note">This run has no such stage. {next === undefined ? "It ends before it." : `Its next stage is ${next}.`}</p> : <StageContent stage={stage} hash={hash} run={run} ledger={ledger} />}
        </div>
      ))}
    </div>
  );
}

/** RunClaims says what the service claims about the answer of a run, and whether these claims contradict each other. */
export function RunClaims({ run }: { run: Run }) {
  const says = claimWords(run), wrong = contradictions(Object.keys(run.row.checks));
  if (says.length + wrong.length === 0) return null;
  return (
    <section>
      <h2>What the run claims</h2>
      {says.length > 0 && <p class="sentence">{says.join(" ")}</p>}
      {wrong.length > 0 && <p class="says-bad">✗ These statements contradict each other. {wrong.join(" ")}</p>}
    </section>
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
      {failed && <p class="dag-mark">The run failed here</p>}
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary><span class="dag-dot" aria-hidden="true" /><span class="dag-title"><strong>{known.title}</strong>{pair.nth > 1 && ` ${pair.nth}`}{known.means && <span class="dag-means">{known.means}</span>}</span></summary>
        {open && <div class="dag-inside"><StageContent stage={pair.stage} hash={pair.a ?? ""} run={run} ledger={ledger} /></div>}
      </details>
    </li>
  );
}
