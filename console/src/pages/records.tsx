import { useGet, usePages } from "../api/load.ts";
import { Named, RecordLink } from "../parts/name.tsx";
import { StateChip } from "../parts/marks.tsx";
import { Empty } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line, Raw } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, usePlace, withQuery } from "../router.ts";
import { kindName, listed, variableName } from "../words.ts";

/** Values of the address that are not filters. */
const own = new Set(["as_of", "cursor", "limit", "names", "events", "proofs", "after"]);

/** RecordsPage lists the records that pass the filters of its address, which are those of the API: records?incomplete=output. */
export function RecordsPage() {
  const place = usePlace();
  const filters = [...place.query].filter(([name]) => !own.has(name));
  const pages = usePages("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { state: "any", ...Object.fromEntries(filters), names: true, as_of: asOf(place), limit: 50 });
  return (
    <>
      <h1>Records</h1>
      {filters.length === 0 ? <p>All records, the newest first.</p> : (
        <p>Only {filters.map(([name, value], i) => <span key={name}>{i > 0 && (i === filters.length - 1 ? " and " : ", ")}<Filter name={name} value={value} /></span>)}, the newest first. <a href={withQuery(place, Object.fromEntries(filters.map(([name]) => [name, undefined])))}>Show all records</a></p>
      )}
      <Listed of={pages} empty={<Empty title="There are no such records">{filters.length > 0 && "Remove a filter to see more."}</Empty>}>
        {(rows) => <Table label="Records" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Record", class: "wide", cell: (row) => <RecordLink seq={row.seq} kind={row.kind} name={row.name} /> },
          { title: "Kind", cell: (row) => <>{kindName(row.kind)} <StateChip state={row.state} /></> },
          { title: "Lacks", cell: (row) => row.incomplete && listed(row.incomplete.map((part) => variableName(part))) },
          { title: "Wrong claims", cell: (row) => row.mismatches.length > 0 && <span class="says-bad"><Line text={listed(row.mismatches)} /></span> },
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
        ]} />}
      </Listed>
    </>
  );
}

/** Filter says what a filter selects. Where a hash has a name, such as the first words of a prompt, the name stands for it. */
function Filter({ name, value }: { name: string; value: string }) {
  return /^[0-9a-f]{64}$/.test(value) ? <HashFilter name={name} hash={value} /> : <Raw text={filterWords(name, value)} />;
}

function HashFilter({ name, hash }: { name: string; hash: string }) {
  const place = usePlace();
  const found = useGet("/v1/ledgers/{ledger}/search", { ledger: place.ledger }, { q: hash, as_of: asOf(place) });
  const named = found.state === "ready" ? found.value.rows.find((hit) => hit.type === name)?.name : undefined;
  return <>records with the {variableName(name).replace(/ hash$/, "")} <span title={hash}>{named?.words !== undefined && named.label === undefined ? <>“<Named name={named} />”</> : <Named name={named} hash={hash} />}</span></>;
}

function filterWords(name: string, value: string): string {
  if (name === "flag" && value === "mismatch") return "records with a wrong claim";
  if (name === "incomplete") return `generations without ${variableName(value)}`;
  if (name === "kind") return `records of the kind ${kindName(value)}`;
  if (name === "state") return `records with the state ${value}`;
  return `records with the ${variableName(name)} ${value}`;
}
