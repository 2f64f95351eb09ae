import type { Schemas } from "../api/client.ts";
import { usePages } from "../api/load.ts";
import { asOf, useLink, usePlace, withQuery } from "../router.ts";
import { RunQuestion, StaleSet } from "../parts/cited.tsx";
import { grouped } from "../parts/passages.ts";
import { CitationSet } from "../parts/citationset.tsx";
import { Passage } from "../parts/sources.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { count, number } from "../words.ts";

const views = [
  { name: "", title: "Changed passages" },
  { name: "answers", title: "All answers" },
  { name: "conflicts", title: "Conflicts" },
  { name: "sources", title: "Sources" },
] as const;

/** CitationsPage shows what answers rest on, and which of them rest on something that changed. */
export function CitationsPage() {
  const place = usePlace();
  const seq = place.rest[0];
  if (seq !== undefined) return /^\d{1,15}$/.test(seq) ? <CitationSet key={seq} seq={Number(seq)} /> : <Empty page title="This is not the number of an event">Use the search above to find an answer.</Empty>;
  const view = place.query.get("view") ?? "";
  return (
    <>
      <h1>Citations</h1>
      <ul class="tabs" aria-label="Views of citations">{views.map((one) => <li key={one.name}><a href={withQuery(place, { view: one.name })} aria-current={one.name === view ? "page" : undefined}>{one.title}</a></li>)}</ul>
      {view === "answers" ? <Answers /> : view === "conflicts" ? <Conflicts /> : view === "sources" ? <Sources /> : <Stale />}
    </>
  );
}

function Stale() {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/citation-sets/stale", { ledger: place.ledger }, { as_of: asOf(place), limit: 30 });
  return (
    <>
      <Listed of={pages} empty={<Empty title="No answer rests on a changed passage">An answer appears here when a later answer cites a different passage at the same place of a source, or when the source is registered again without the passage.</Empty>}>
        {(rows, more) => {
          const sets = grouped<Schemas["StaleRow"]>(rows, (row) => row.seq);
          return (
            <>
              <p>These answers cite passages that their sources no longer have. Read the answers again: the text they rest on has changed.</p>
              <p class="sentence">{count(sets.length, "answer rests", "answers rest")} on {count(rows.length, "changed passage")}{more ? ", and more follow" : ""}.</p>
              <ol class="stale plain-list">{sets.map((one) => <StaleSet key={one[0]?.seq} ledger={place.ledger} rows={one} />)}</ol>
            </>
          );
        }}
      </Listed>
    </>
  );
}

function Answers() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { kind: "citation_set", events: true, as_of: asOf(place), limit: 20 });
  return (
    <Listed of={pages} empty={<Empty title="No citations are recorded yet">This page shows citation sets. Post some to <code>/citation-sets</code>, or import a file of them with <code>colophon import</code>.</Empty>}>
      {(rows) => <Table label="Answers with citations" rows={rows} keyOf={(row) => row.seq} columns={[
        { title: "Answer", class: "wide", cell: (row) => <a href={link("citations", [row.seq])}><RunQuestion ledger={place.ledger} run={row.run_id ?? undefined} otherwise={subjectOf(row)} /></a> },
        { title: "Subject", cell: (row) => <a href={link("subject", [subjectOf(row)])}><Line text={subjectOf(row)} most={40} /></a> },
        { title: "Passages", class: "number", cell: (row) => number(citationsOf(row).length) },
        { title: "Sources", class: "number", cell: (row) => number(new Set(citationsOf(row).map((one) => one.source_id)).size) },
        { title: "Recorded", cell: (row) => <Time at={row.time} /> },
      ]} />}
    </Listed>
  );
}

type Listing = Schemas["ListedRecord"];

function subjectOf(row: Listing): string {
  return (row.event?.record as { subject?: string } | undefined)?.subject ?? "";
}

function citationsOf(row: Listing): { source_id: string }[] {
  return (row.event?.record as { citations?: { source_id: string }[] } | undefined)?.citations ?? [];
}

function Conflicts() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/citation-sets/conflicts", { ledger: place.ledger }, { as_of: asOf(place), limit: 20 });
  return (
    <>
      <Listed of={pages} empty={<Empty title="No passage was cited under two sources">A passage appears here when answers cite it under more than one source.</Empty>}>
        {(rows) => <><p>Each of these passages was cited under several sources. Either one source copies another, or an answer names the wrong source.</p><ol class="plain-list conflicts">{rows.map((row) => (
          <li key={row.chunk_hash}>
            <p><Passage ledger={place.ledger} hash={row.chunk_hash} /></p>
            <p class="small">{sameSet(row) ? <>cited under {number(row.source_count)} sources by <a href={link("citations", [row.sources[0]?.seq ?? row.seq])}>one answer</a>: </> : <>cited under {number(row.source_count)} sources: </>}
              {row.sources.map((source, i) => <span key={source.source_id}>{i > 0 && ", "}<a href={link("source", [source.source_id])}><Line text={source.source_id} most={60} /></a>{!sameSet(row) && <> (<a href={link("citations", [source.seq])}>first in event {number(source.seq)}</a>)</>}</span>)}{row.source_count > row.sources.length && `, and ${number(row.source_count - row.sources.length)} more`}</p>
          </li>
        ))}</ol></>}
      </Listed>
    </>
  );
}

/** sameSet reports whether one answer alone cites a passage under several sources. */
function sameSet(row: Schemas["ConflictRow"]): boolean {
  return row.sources.every((source) => source.seq === row.sources[0]?.seq);
}

function Sources() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/sources", { ledger: place.ledger }, { as_of: asOf(place), limit: 50 });
  return (
    <Listed of={pages} empty={<Empty title="No source is registered">Answers can also cite sources that are not registered; search for a source by its name. A registered source can list its passages. The ledger then notices when an answer cites a passage that the source does not have.</Empty>}>
      {(rows) => <Table label="Registered sources" rows={rows} keyOf={(row) => row.source_id} columns={[
        { title: "Source", class: "wide", cell: (row) => <a href={link("source", [row.source_id])}><Line text={row.title ?? row.source_id} /></a> },
        { title: "State", cell: (row) => (row.registered ? "registered" : <strong>revoked</strong>) },
        { title: "Passages", class: "number", cell: (row) => (row.chunk_count === null ? <span class="quiet">not listed</span> : number(row.chunk_count)) },
        { title: "Changed", cell: (row) => <Time at={row.time} /> },
      ]} />}
    </Listed>
  );
}
