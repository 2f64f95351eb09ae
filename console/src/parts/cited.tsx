// Answers and the passages that they cite, with what became of these passages.
import type { ComponentChildren } from "preact";
import { get, type Schemas } from "../api/client.ts";
import { lanes, useLoad, type Loading } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { count, number } from "../words.ts";
import { Named } from "./name.tsx";
import { replacement, superseded, type Cited } from "./passages.ts";
import { TextsCompared } from "./sidebyside.tsx";
import { Failed, Loads } from "./states.tsx";
import { Line, Text } from "./text.tsx";
import { Time } from "./time.tsx";

const lane = lanes(2);

/** useAnswerRun finds the latest answer run of a run, which has the question and the answer of its citations. */
export function useAnswerRun(ledger: string, run: string | undefined): Loading<Schemas["ListedRecord"] | undefined> {
  const place = usePlace();
  return useLoad(`${ledger} answer run ${run ?? ""} ${asOf(place) ?? ""}`, (signal) => run === undefined ? Promise.resolve(undefined) : lane(async () => {
    const list = await get("/v1/ledgers/{ledger}/records", { ledger }, { kind: "run_dag", run_id: run, names: true, limit: 1, as_of: asOf(place) }, signal);
    return list.rows[0];
  }));
}

/** RunQuestion names an answer by its question, or by something else if no run has that question. */
export function RunQuestion({ ledger, run, otherwise }: { ledger: string; run: string | undefined; otherwise: string }) {
  const found = useAnswerRun(ledger, run);
  if (found.state === "loading") return <span class="quiet"><Line text={otherwise} /></span>;
  const name = found.state === "ready" ? found.value?.name : undefined;
  return name?.words === undefined ? <Line text={otherwise} /> : <span class="words"><Named name={name} most={140} /></span>;
}

/** useDocument loads the citations of a set with their texts. */
export function useDocument(ledger: string, seq: number): Loading<Cited[]> {
  return useLoad(`${ledger} document ${seq}`, (signal) => lane(() => documentOf(ledger, seq, signal)));
}

async function documentOf(ledger: string, seq: number, signal?: AbortSignal): Promise<Cited[]> {
  return (await get("/v1/ledgers/{ledger}/citation-sets/{seq}/document", { ledger, seq }, {}, signal)).all_citations;
}

type StaleRow = Schemas["StaleRow"];

/** Superseding is an event that superseded passages: a later set with its citations, or a registration. */
interface Superseding {
  row: Schemas["RecordAnswer"];
  cited: Cited[] | undefined;
}

function useSuperseding(ledger: string, seq: number): Loading<Superseding> {
  return useLoad(`${ledger} superseding ${seq}`, (signal) => lane(async () => {
    const row = await get("/v1/ledgers/{ledger}/records/{seq}", { ledger, seq }, {}, signal);
    return { row, cited: row.kind === "citation_set" ? await documentOf(ledger, seq, signal) : undefined };
  }));
}

/** StaleSet shows an answer with those of its passages that their sources no longer have. */
export function StaleSet({ ledger, rows }: { ledger: string; rows: readonly StaleRow[] }) {
  const link = useLink();
  const first = rows[0];
  const document = useDocument(ledger, first?.seq ?? 0);
  if (!first) return null;
  return (
    <li>
      <h2><a href={link("citations", [first.seq])}><RunQuestion ledger={ledger} run={first.run_id ?? undefined} otherwise={first.subject} /></a></h2>
      <p class="quiet small">{first.run_id !== null && <><a href={link("run", [first.run_id])}><Line text={first.run_id} most={50} /></a> · </>}<a href={link("subject", [first.subject])}><Line text={first.subject} most={50} /></a> · {count(rows.length, "changed passage")}</p>
      {document.state === "failed" && document.problem.status !== 403 ? <Failed problem={document.problem} again={document.again} /> : null}
      {document.state === "failed" && document.problem.status === 403 && <p class="note">Your token does not permit reading texts, so only the events are shown.</p>}
      {rows.map((row) => <ChangedPassage key={`${row.source_id} ${row.chunk_hash}`} ledger={ledger} row={row} earlier={document.state === "ready" ? document.value : []} loading={document.state === "loading"} />)}
    </li>
  );
}

/** ChangedPassage shows what an answer cites beside what the source has now. */
export function ChangedPassage({ ledger, row, earlier, loading }: { ledger: string; row: StaleRow; earlier: readonly Cited[]; loading: boolean }) {
  const link = useLink();
  const by = useSuperseding(ledger, row.superseded_by);
  const old = earlier.find((one) => one.chunk_hash === row.chunk_hash && one.source_id === row.source_id);
  return (
    <div class="changed-passage">
      <p class="small"><strong><a href={link("source", [row.source_id])}><Line text={row.source_id} most={60} /></a></strong>{old?.section && <> · <Line text={old.section} most={60} /></>}. {superseded(row.how)}</p>
      {!loading && <Loads of={by} lines={2}>{(change) => <Replaced old={old} earlier={earlier} change={change} />}</Loads>}
    </div>
  );
}

function Replaced({ old, earlier, change }: { old: Cited | undefined; earlier: readonly Cited[]; change: Superseding }) {
  const link = useLink();
  const now = old && change.cited && replacement(old, change.cited, earlier);
  const event: ComponentChildren = <a href={link(change.row.kind === "citation_set" ? "citations" : "record", [change.row.seq])}>event {number(change.row.seq)}</a>;
  if (!old || old.text === null) return <p class="note">The text of the passage is not in the ledger. {change.row.kind === "citation_set" ? "The later answer is" : "The registration is"} {event}, <Time at={change.row.time} />.</p>;
  if (now && now.text !== null) return <TextsCompared before={old.text} after={now.text} a="The answer rests on" b={<>The source now has, as cited in {event} <Time at={change.row.time} /></>} />;
  return (
    <div class="sides">
      <figure class="side"><figcaption>The answer rests on</figcaption><Text text={old.text} label="The passage" /></figure>
      <div class="side"><p class="quiet small">The source now has</p><p>{change.row.kind === "source_registered" ? <>No longer this passage: {event} registered the source without it, <Time at={change.row.time} />.</> : <>No passage in its place, according to {event}, <Time at={change.row.time} />.</>}</p></div>
    </div>
  );
}
