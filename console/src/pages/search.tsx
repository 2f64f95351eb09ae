import { useState } from "preact/hooks";
import type { OpenQuery } from "../api/client.ts";
import { usePages } from "../api/load.ts";
import { asOf, go, usePlace, withQuery } from "../router.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { kindName } from "../words.ts";

/** Fields by which records are found, with what a person enters. */
const fields: { name: string; title: string; example: string }[] = [
  { name: "run_id", title: "run", example: "eval-7/42" },
  { name: "output_hash", title: "output hash", example: "8 or more digits" },
  { name: "subject", title: "subject", example: "question/0" },
];

export function SearchPage() {
  const place = usePlace();
  const field = fields.find((one) => one.name === place.query.get("by")) ?? fields[0];
  const [text, setText] = useState(place.query.get("q") ?? "");
  const asked = place.query.get("q") ?? "";
  if (!field) return null;
  return (
    <>
      <h1>Search</h1>
      <form class="row" onSubmit={(event) => {
        event.preventDefault();
        go(withQuery(place, { q: text.trim() }));
      }}>
        <label>By<select value={field.name} onChange={(event) => go(withQuery(place, { by: event.currentTarget.value }))}>{fields.map((one) => <option key={one.name} value={one.name}>{one.title}</option>)}</select></label>
        <label>Value<input value={text} placeholder={field.example} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <button type="submit" class="primary">Search</button>
      </form>
      {asked && <Found query={{ [field.name]: asked }} />}
    </>
  );
}

function Found({ query }: { query: OpenQuery }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { ...query, as_of: asOf(place), limit: 50 });
  return (
    <Listed of={pages} empty={<Empty title="Nothing was found">Check the spelling, or search for something else.</Empty>}>
      {(rows) => <Table label="Records" rows={rows} keyOf={(row) => row.seq} columns={[
        { title: "Run", class: "wide", cell: (row) => <RecordLink seq={row.seq}><Line text={row.run_id ?? `${kindName(row.kind)} ${row.seq}`} /></RecordLink> },
        { title: "Kind", cell: (row) => kindName(row.kind) },
        { title: "Recorded", cell: (row) => <Time at={row.time} /> },
      ]} />}
    </Listed>
  );
}
