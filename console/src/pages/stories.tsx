import { usePages } from "../api/load.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line } from "../parts/text.tsx";
import { asOf, usePlace } from "../router.ts";
import { number } from "../words.ts";

/** StoriesPage lists the projects that have story paths. */
export function StoriesPage() {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/paths", { ledger: place.ledger }, { as_of: asOf(place), limit: 50 });
  return (
    <>
      <h1>Stories</h1>
      <Listed of={pages} empty={<Empty title="There are no stories yet">A service records them as fingerprints of paths.</Empty>}>
        {(rows) => <Table label="Stories" rows={rows} keyOf={(row) => row.project} columns={[
          { title: "Story", class: "wide", cell: (row) => <Line text={row.project} /> },
          { title: "Builds", class: "number", cell: (row) => number(row.builds) },
          { title: "Paths", class: "number", cell: (row) => number(row.paths) },
          { title: "First path", cell: (row) => <RecordLink seq={row.seq} kind="path_fingerprint" /> },
        ]} />}
      </Listed>
    </>
  );
}
