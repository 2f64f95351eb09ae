import type { Schemas } from "../api/client.ts";
import { useGet, usePages } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { RunQuestion, StaleSet } from "../parts/cited.tsx";
import { SubjectDrift } from "../parts/citationset.tsx";
import { grouped } from "../parts/passages.ts";
import { Passage } from "../parts/sources.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line, Raw } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { count, number } from "../words.ts";

/** SubjectPage shows how the evidence for a subject changed from answer to answer. */
export function SubjectPage() {
  const subject = usePlace().rest[0] ?? "";
  return (
    <>
      <p class="eyebrow">subject</p>
      <h1><Raw text={subject} /></h1>
      <p>Answers about this subject, the oldest first, and how the passages that they cite changed.</p>
      <SubjectDrift subject={subject} />
    </>
  );
}

/** SourcePage shows a source: its registration, which answers rest on it, and which of its passages changed. */
export function SourcePage() {
  const place = usePlace();
  const source = place.rest[0] ?? "";
  const stale = usePages("/v1/ledgers/{ledger}/citation-sets/stale", { ledger: place.ledger }, { source_id: source, as_of: asOf(place), limit: 20 });
  return (
    <>
      <p class="eyebrow">source</p>
      <h1><Raw text={source} /></h1>
      <Registration source={source} />
      <section>
        <h2>Answers that rest on a changed passage</h2>
        <div class="once"><Listed of={stale} empty={<p>None: no passage of this source changed after an answer cited it.</p>}>
          {(rows) => <ol class="stale plain-list">{grouped(rows, (row) => row.seq).map((one) => <StaleSet key={one[0]?.seq} ledger={place.ledger} rows={one} />)}</ol>}
        </Listed></div>
      </section>
      <CitedBy path="/v1/ledgers/{ledger}/citation-sets/by-source/{source_id}" values={{ source_id: source }} empty="No answer cites this source" />
    </>
  );
}

function Registration({ source }: { source: string }) {
  const place = usePlace(), link = useLink();
  const loading = useGet("/v1/ledgers/{ledger}/sources/{source_id}", { ledger: place.ledger, source_id: source }, { as_of: asOf(place) });
  if (loading.state === "failed" && loading.problem.status === 404) return <p class="quiet">This source is not registered, so the ledger knows only the passages that answers cite from it.</p>;
  return (
    <Loads of={loading} lines={2}>
      {(one) => (
        <p>{one.title !== null && <><strong><Line text={one.title} most={120} /></strong>. </>}{one.registered ? "Registered" : "Revoked"} <Time at={one.time} exact /> in <a href={link("record", [one.seq])}>event {number(one.seq)}</a>{one.chunk_count !== null && `, with ${count(one.chunk_count, "passage")}`}.{one.reason !== null && <> <Line text={one.reason} most={300} /></>}</p>
      )}
    </Loads>
  );
}

/** PassagePage shows where a passage is cited. */
export function PassagePage() {
  const place = usePlace();
  const hash = place.rest[0] ?? "";
  return (
    <>
      <p class="eyebrow">passage</p>
      <h1>A passage, and the answers that cite it</h1>
      <div class="passage-head"><Passage ledger={place.ledger} hash={hash} /></div>
      <p class="quiet small"><code><Line text={hash} /></code></p>
      <CitedBy path="/v1/ledgers/{ledger}/citation-sets/by-chunk/{hash}" values={{ hash }} empty="No answer cites this passage" />
    </>
  );
}

function CitedBy({ path, values, empty }: { path: "/v1/ledgers/{ledger}/citation-sets/by-chunk/{hash}" | "/v1/ledgers/{ledger}/citation-sets/by-source/{source_id}"; values: Record<string, string>; empty: string }) {
  const place = usePlace(), link = useLink();
  const pages = usePages(path, { ledger: place.ledger, ...values } as never, { as_of: asOf(place), limit: 20 });
  return (
    <section>
      <h2>Answers that cite it</h2>
      <Listed of={pages} empty={<Empty title={empty}>Check the name, or search for its beginning.</Empty>}>
        {(rows) => <Table label="Answers that cite it" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Answer", class: "wide", cell: (row) => <a href={link("citations", [row.seq])}><RunQuestion ledger={place.ledger} run={row.run_id ?? undefined} otherwise={row.subject} /></a> },
          { title: "Subject", cell: (row) => <a href={link("subject", [row.subject])}><Line text={row.subject} most={40} /></a> },
          { title: "Passages", class: "number", cell: (row) => number(row.citations.length) },
          ...(values.hash === undefined ? [] : [{ title: "Source", cell: (row: Schemas["CitedRow"]) => <Line text={[...new Set(row.citations.map((one) => one.source_id))].join(", ")} most={60} /> }]),
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
        ]} />}
      </Listed>
    </section>
  );
}
