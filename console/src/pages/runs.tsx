import { usePages } from "../api/load.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, useLink, usePlace } from "../router.ts";

/** RunsPage lists the newest answer runs. */
export function RunsPage() {
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { kind: "run_dag", state: "any", names: true, as_of: asOf(place), limit: 50 });
  return (
    <>
      <h1>Runs</h1>
      <Listed of={pages} empty={<Empty title="There are no answer runs yet">A service records them as run-DAGs.</Empty>}>
        {(rows) => <Table label="Answer runs" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Question", class: "wide", cell: (row) => <RecordLink seq={row.seq} kind={row.kind} name={row.name} /> },
          { title: "Run", cell: (row) => row.run_id && <a href={link("run", [row.run_id])}><Line text={row.run_id} most={40} /></a> },
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
          { title: "State", cell: (row) => row.state ?? "" },
        ]} />}
      </Listed>
    </>
  );
}
