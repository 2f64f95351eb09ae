import { usePages } from "../api/load.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, useLink, usePlace } from "../router.ts";

/** CitationsPage lists the newest citation sets. */
export function CitationsPage() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { kind: "citation_set", state: "any", names: true, as_of: asOf(place), limit: 50 });
  return (
    <>
      <h1>Citations</h1>
      <Listed of={pages} empty={<Empty title="There are no citations yet">A service records them as citation sets.</Empty>}>
        {(rows) => <Table label="Citation sets" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Answer", class: "wide", cell: (row) => <RecordLink seq={row.seq} kind={row.kind} name={row.name} /> },
          { title: "Run", cell: (row) => row.run_id && <a href={link("run", [row.run_id])}><Line text={row.run_id} most={40} /></a> },
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
        ]} />}
      </Listed>
    </>
  );
}
