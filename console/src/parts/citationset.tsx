// One answer with its sources and passages, and what changed since.
import { get, isWithheld, type Schemas } from "../api/client.ts";
import { useGet, useLoad, usePages } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { count, listed, number, percent } from "../words.ts";
import { ChangedPassage, RunQuestion, useAnswerRun, useDocument } from "./cited.tsx";
import { AsOf } from "./marks.tsx";
import { grouped, type Cited } from "./passages.ts";
import { RecordText } from "./sidebyside.tsx";
import { Empty, Loads } from "./states.tsx";
import { Listed, Table } from "./table.tsx";
import { Line, Text } from "./text.tsx";
import { Time } from "./time.tsx";

interface SetEvent {
  subject: string;
  run_id?: string;
  citations: { chunk_hash: string; source_id: string; section: string | null; weight: number }[];
}

export function CitationSet({ seq }: { seq: number }) {
  const place = usePlace(), link = useLink();
  const loading = useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq }, { as_of: asOf(place) });
  return (
    <Loads page of={loading} lines={10}>
      {(row) => {
        if (row.kind !== "citation_set") return <Empty page title="This event is not a citation set"><a href={link("record", [seq])}>See what it is</a></Empty>;
        const set = row.event.record as unknown as SetEvent;
        return (
          <>
            <header class="page-head">
              <p class="eyebrow">an answer and what it rests on</p>
              <h1><RunQuestion ledger={place.ledger} run={set.run_id} otherwise={set.subject} /></h1>
              <p class="quiet">{set.run_id !== undefined && <><a href={link("run", [set.run_id])}><Line text={set.run_id} most={60} /></a> · </>}about <a href={link("subject", [set.subject])}><Line text={set.subject} most={60} /></a> · recorded <Time at={row.time} exact /></p>
            </header>
            {set.run_id !== undefined && <Answer ledger={place.ledger} run={set.run_id} />}
            <Cites ledger={place.ledger} seq={seq} set={set} />
            <section><h2>Other answers about this subject</h2><div class="once"><SubjectDrift subject={set.subject} seq={seq} /></div></section>
            <p><a href={link("record", [seq])}>The record of these citations, its checks, and its proof</a></p>
            <AsOf size={row.as_of} />
          </>
        );
      }}
    </Loads>
  );
}

function Answer({ ledger, run }: { ledger: string; run: string }) {
  const link = useLink();
  const found = useAnswerRun(ledger, run);
  if (found.state !== "ready" || !found.value) return null;
  return (
    <section>
      <h2>The answer</h2>
      <RecordText ledger={ledger} seq={found.value.seq} name="answer_text" label="Answer" />
      <p class="small"><a href={link("run-dag", [found.value.seq])}>How this answer came about</a></p>
    </section>
  );
}

const stalePage = 1000, stalePages = 40; // rows of a page, and pages that are looked through for one answer

/** staleOf finds the passages of an answer that their sources no longer have. The API lists those of all answers that cite a source. `whole` is false if there are too many to look through. */
async function staleOf(ledger: string, seq: number, sources: readonly string[], size: number | undefined, signal: AbortSignal): Promise<{ rows: Schemas["StaleRow"][]; whole: boolean }> {
  const rows: Schemas["StaleRow"][] = [];
  let pages = 0;
  for (const source of sources) {
    let cursor: string | undefined;
    do {
      if (pages++ === stalePages) return { rows, whole: false };
      const list = await get("/v1/ledgers/{ledger}/citation-sets/stale", { ledger }, { source_id: source, as_of: size, limit: stalePage, cursor }, signal);
      rows.push(...list.rows.filter((row) => row.seq === seq));
      cursor = list.next ?? undefined;
    } while (cursor !== undefined);
  }
  return { rows, whole: true };
}

/** Cites lists the passages by source. Those that their source no longer has come with what it has now. */
function Cites({ ledger, seq, set }: { ledger: string; seq: number; set: SetEvent }) {
  const place = usePlace(), link = useLink();
  const document = useDocument(ledger, seq);
  const sources = [...new Set(set.citations.map((one) => one.source_id))];
  const stale = useLoad(`${ledger} stale ${seq} ${asOf(place) ?? ""}`, (signal) => staleOf(ledger, seq, sources, asOf(place), signal));
  const changed = stale.state === "ready" ? stale.value.rows : [];
  const texts: readonly Cited[] = document.state === "ready" ? document.value : [];
  return (
    <>
      <section>
        <h2>What changed since</h2>
        <Loads of={stale} lines={2}>
          {({ rows, whole }) => rows.length === 0 ? <p>{whole ? "Nothing: its sources still have every passage that this answer cites, as far as the ledger knows." : "Nothing was found so far, but its sources have more changed passages than this page looks through."}</p> : (
            <>
              <p class="sentence says-bad">{!whole && "At least "}{number(rows.length)} of {count(set.citations.length, "passage")} {rows.length === 1 ? "is" : "are"} no longer in the source.</p>
              {rows.map((row) => <ChangedPassage key={`${row.source_id} ${row.chunk_hash}`} ledger={ledger} row={row} earlier={texts} loading={document.state === "loading"} />)}
            </>
          )}
        </Loads>
      </section>
      <section>
        <h2>What it rests on</h2>
        <p class="quiet">{count(set.citations.length, "passage")} of {count(sources.length, "source")}; those with the highest weight first.</p>
        {grouped(set.citations.map((citation, i) => ({ ...citation, i })), (one) => one.source_id).map((group) => (
          <div key={group[0]?.source_id} class="source">
            <h3><a href={link("source", [group[0]?.source_id ?? ""])}><Line text={group[0]?.source_id ?? ""} most={90} /></a></h3>
            <ol class="citations">{[...group].sort((a, b) => b.weight - a.weight).map((one) => {
              const text = texts[one.i]?.text ?? texts.find((other) => other.chunk_hash === one.chunk_hash)?.text;
              return (
                <li key={one.i}>
                  {text !== null && text !== undefined ? <Text text={text} label={`Passage ${one.i + 1}`} /> : <p class="note">{document.state === "loading" ? "Loading…" : document.state === "failed" && !isWithheld(document.problem) ? "The text of this passage could not be loaded. Reload the page to try again." : "The text of this passage is not in the ledger, or your token does not permit reading it."}</p>}
                  <p class="quiet small">weight {one.weight}{one.section && <> · <Line text={one.section} most={60} /></>} · <a href={link("passage", [one.chunk_hash])}>where else it is cited</a>{changed.some((row) => row.chunk_hash === one.chunk_hash && row.source_id === one.source_id) && <> · <strong class="says-bad">changed since</strong></>}</p>
                </li>
              );
            })}</ol>
          </div>
        ))}
      </section>
    </>
  );
}

/** SubjectDrift lists the answers about a subject, each compared with the one before. */
export function SubjectDrift({ subject, seq }: { subject: string; seq?: number }) {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/citation-sets/drift", { ledger: place.ledger }, { subject, as_of: asOf(place), limit: 30 });
  if (seq !== undefined && pages.first.state === "ready" && pages.rows.length === 1) return <p class="quiet">So far, this is the only answer about the subject.</p>;
  return (
    <Listed of={pages} empty={<Empty title="No answer is about this subject">Check the name, or search for its beginning.</Empty>}>
      {(rows) => <Table label="Answers about this subject" rows={rows} keyOf={(row) => row.seq} columns={[
        { title: "Answer", class: "wide", cell: (row) => (row.seq === seq ? <strong>this answer</strong> : <a href={link("citations", [row.seq])}><RunQuestion ledger={place.ledger} run={row.run_id ?? undefined} otherwise={row.run_id ?? `event ${number(row.seq)}`} /></a>) },
        { title: "Recorded", cell: (row) => <Time at={row.time} exact /> },
        { title: "Evidence", cell: (row) => (row.against === null ? "the first answer" : row.added.length + row.removed.length === 0 ? <span class="quiet">the same passages</span> : listed([...(row.added.length > 0 ? [`${number(row.added.length)} new`] : []), ...(row.removed.length > 0 ? [`${number(row.removed.length)} gone`] : []), `${number(row.kept.length)} kept`])) },
        { title: "Kept", class: "number", cell: (row) => (row.jaccard === null ? "" : percent(row.jaccard)) },
      ]} />}
    </Listed>
  );
}
