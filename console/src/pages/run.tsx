import { usePages } from "../api/load.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Raw } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, usePlace } from "../router.ts";

/** RunPage lists everything of one run. */
export function RunPage() {
  const place = usePlace(), run = place.rest[0] ?? "";
  const pages = usePages("/v1/ledgers/{ledger}/runs/{run_id}", { ledger: place.ledger, run_id: run }, { state: "any", as_of: asOf(place), limit: 50 });
  return (
    <>
      <p class="eyebrow">run</p>
      <h1><Raw text={run} /></h1>
      <Listed of={pages} empty={<Empty title="There is no such run">Check the name, or search for its beginning.</Empty>}>
        {(rows) => <Table label="Records of the run" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Record", cell: (row) => <RecordLink seq={row.seq} kind={row.kind} /> },
          { title: "Recorded", cell: (row) => <Time at={row.time} exact /> },
          { title: "State", cell: (row) => row.state ?? "" },
          { title: "Wrong claims", cell: (row) => row.mismatches.join(", ") },
        ]} />}
      </Listed>
    </>
  );
}
