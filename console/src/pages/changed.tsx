import { usePages } from "../api/load.ts";
import { Named, RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { usePlace } from "../router.ts";
import { number } from "../words.ts";

/** ChangedPage lists the inputs whose outputs differ most. */
export function ChangedPage() {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/drift/groups", { ledger: place.ledger }, { by: "input", sort: "stability", min_outputs: 2, names: true, limit: 25 });
  return (
    <>
      <h1>What changed</h1>
      <Listed of={pages} empty={<Empty title="No input has two different outputs" />}>
        {(rows) => <Table label="Unstable inputs" rows={rows} keyOf={(row) => row.value} columns={[
          { title: "Input", class: "wide", cell: (row) => <RecordLink seq={row.seq}><Named name={row.name} hash={row.value} /></RecordLink> },
          { title: "Runs", class: "number", cell: (row) => number(row.runs) },
          { title: "Outputs", class: "number", cell: (row) => number(row.distinct_outputs) },
        ]} />}
      </Listed>
    </>
  );
}
