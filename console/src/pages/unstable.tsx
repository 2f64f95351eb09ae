import type { Schemas } from "../api/client.ts";
import { get } from "../api/client.ts";
import { lanes, useLoad, usePages } from "../api/load.ts";
import { letters, why } from "../changes.ts";
import { ChangesNav } from "../parts/changes.tsx";
import { Named } from "../parts/name.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Strip, StripKey } from "../parts/strip.tsx";
import { Listed } from "../parts/table.tsx";
import { asOf, useLink, usePlace } from "../router.ts";
import { count, percent } from "../words.ts";

type Group = Schemas["GroupRow"];

const lane = lanes(3);
const shown = 24; // runs of an input in a list

/** UnstablePage lists the inputs whose outputs differ, with a strip of their outputs over time. */
export function UnstablePage() {
  const place = usePlace(), fixed = asOf(place);
  const order = fixed === undefined ? { sort: "stability" } : { as_of: fixed };
  const pages = usePages("/v1/ledgers/{ledger}/drift/groups", { ledger: place.ledger }, { by: "input", min_outputs: 2, ...order, names: true, limit: 10 });
  return (
    <>
      <h1>What changed</h1>
      <ChangesNav />
      <Listed of={pages} empty={<Unstable />}>
        {(rows) => (
          <>
            <p class="lede">These inputs ran more than once, and gave different outputs. {fixed === undefined ? "The least stable come first." : "At an earlier tree size, the newest come first."}</p>
            <StripKey />
            <ol class="inputs">{rows.filter((row) => row.distinct_outputs > 1).map((row) => <Input key={row.value} group={row} />)}</ol>
          </>
        )}
      </Listed>
    </>
  );
}

function Unstable() {
  return <Empty title="No input has two different outputs">Either each input ran once, or its output always stayed the same. Inputs are compared without their seeds.</Empty>;
}

function Input({ group }: { group: Group }) {
  const place = usePlace(), link = useLink();
  const timeline = link("timeline", [], { input: group.value });
  const loading = useLoad(`${place.ledger} strip ${group.value} ${asOf(place) ?? group.last_seq}`, (signal) => lane(() => get("/v1/ledgers/{ledger}/drift/timeline", { ledger: place.ledger }, { input: group.value, as_of: asOf(place), names: true, limit: shown }, signal)));
  return (
    <li>
      <h2 class="instruction"><a href={timeline}><Named name={group.name} hash={group.value} most={160} /></a></h2>
      <p class="quiet small">{count(group.runs, "run")}, {count(group.distinct_outputs, "different output")}; {group.distinct_outputs === group.runs ? "no output came twice" : `the most common one came in ${percent(group.stability)} of the runs`}.</p>
      <Loads of={loading} lines={1}>{(list) => (
        <>
          <Strip runs={list.rows} letters={letters(list.rows.map((run) => run.output_hash))} label="Outputs over time, the oldest first" href={(run) => link("record", [run.seq])} more={list.next ? group.runs - list.rows.length : 0} />
          <p>{why(list.rows, Boolean(list.next))}</p>
        </>
      )}</Loads>
    </li>
  );
}

