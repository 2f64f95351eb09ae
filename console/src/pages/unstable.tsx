import type { Schemas } from "../api/client.ts";
import { address, get, request } from "../api/client.ts";
import { lanes, useLoad, usePages, type Loading } from "../api/load.ts";
import { letters, tally, why } from "../changes.ts";
import { ChangesNav } from "../parts/changes.tsx";
import { Named } from "../parts/name.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Strip, StripKey } from "../parts/strip.tsx";
import { Listed } from "../parts/table.tsx";
import { AsOf } from "../parts/marks.tsx";
import { asOf, go, useLink, usePlace, withQuery } from "../router.ts";
import { causeOf, causeOrder, count, number, percent } from "../words.ts";

type Group = Schemas["GroupRow"];
type Timeline = Schemas["TimelineList"];

const lane = lanes(3);
const shown = 24; // runs of an input in a list
const searched = 1000; // runs of an input in which a cause is looked for, the most of one answer
const onePage = 30; // inputs of a page
const counted = 1000; // inputs that are counted, the most of one answer
const looked = 150; // inputs in which a cause is looked for, before a person is asked

/** unstableInputs returns the query for the inputs with different outputs, and how they are ordered. */
function unstableInputs(size: number | undefined): Record<string, string | number> {
  return { by: "input", min_outputs: 2, ...(size === undefined ? { sort: "stability" } : { as_of: size }) };
}

/** UnstablePage lists the inputs whose outputs differ, with a strip of their outputs over time. */
export function UnstablePage() {
  const place = usePlace(), fixed = asOf(place), cause = place.query.get("cause") ?? "";
  const all = useLoad(`${place.ledger} unstable ${fixed ?? ""}`, (signal) => get("/v1/ledgers/{ledger}/drift/groups", { ledger: place.ledger }, { ...unstableInputs(fixed), limit: counted }, signal));
  return (
    <>
      <h1>What changed</h1>
      <ChangesNav />
      <Loads of={all} lines={2}>{(list) => list.rows.length === 0 && !list.next ? <><Unstable /><AsOf size={list.as_of} /></> : (
        <p class="lede">{list.next ? `More than ${number(list.rows.length)} inputs` : count(list.rows.length, "input")} ran more than once and gave different outputs. {fixed === undefined ? "The least stable come first." : "At an earlier tree size, the newest come first."}</p>
      )}</Loads>
      <ByCause chosen={cause} />
      {cause === "" ? <Inputs /> : <Loads of={all} lines={6}>{(list) => <InputsOfCause key={cause} cause={cause} groups={list.rows} size={list.as_of} whole={!list.next} />}</Loads>}
    </>
  );
}

function Unstable() {
  return <Empty title="No input has two different outputs">Either each input ran once, or its output always stayed the same. Seeds are ignored: inputs that differ only in their seed count as one.</Empty>;
}

/** ByCause chooses the inputs whose outputs changed for one cause. Each cause has its number of changed outputs. */
function ByCause({ chosen }: { chosen: string }) {
  const place = usePlace(), size = asOf(place);
  const drift = useLoad(`${place.ledger} causes ${size ?? ""}`, async (signal) => {
    const response = await request(address("/v1/ledgers/{ledger}/rates", { ledger: place.ledger }, { as_of: size }), { signal, headers: { Accept: "application/json" } });
    const total = new Map<string, number>();
    for (const row of ((await response.json()) as Schemas["Rates"]).rows) for (const [cause, n] of Object.entries(row.drift)) total.set(cause, (total.get(cause) ?? 0) + n);
    return total;
  });
  const total = drift.state === "ready" ? drift.value : new Map<string, number>();
  const offered = causeOrder.filter((cause) => cause === chosen || (!["identical", "no_effect", "incomplete"].includes(cause) && (total.get(cause) ?? 0) > 0));
  if (offered.length === 0) return null;
  return (
    <form class="row" onSubmit={(event) => event.preventDefault()}>
      <label>Changes caused by
        <select value={chosen} onChange={(event) => go(withQuery(place, { cause: event.currentTarget.value, from: undefined }))}>
          <option value="">any cause</option>
          {offered.map((cause) => <option key={cause} value={cause}>{causeOf(cause).name}{total.has(cause) ? ` (${count(total.get(cause) ?? 0, "run")})` : ""}</option>)}
        </select>
      </label>
    </form>
  );
}

function Inputs() {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/drift/groups", { ledger: place.ledger }, { ...unstableInputs(asOf(place)), names: true, limit: onePage });
  return (
    <Listed of={pages} empty={null}>
      {(rows) => (
        <>
          <StripKey />
          <ol class="inputs">{rows.filter((row) => row.distinct_outputs > 1).map((row) => <Input key={row.value} group={row} />)}</ol>
        </>
      )}
    </Listed>
  );
}

function timelineOf(ledger: string, input: string, size: number | undefined, limit: number, signal: AbortSignal): Promise<Timeline> {
  return lane(() => get("/v1/ledgers/{ledger}/drift/timeline", { ledger }, { input, as_of: size, names: true, limit }, signal));
}

/** Found is an input with its runs. */
interface Found {
  group: Group;
  list: Timeline;
}

/** InputsOfCause lists the inputs whose outputs changed for one cause. The API has no such filter, so the page reads the runs of the inputs in their order, so many at a time. */
function InputsOfCause({ cause, groups, size, whole }: { cause: string; groups: readonly Group[]; size: number; whole: boolean }) {
  const place = usePlace(), from = Number(place.query.get("from") ?? 0) || 0;
  const part = groups.slice(from, from + looked), end = from + part.length;
  const loading = useLoad(`${place.ledger} ${cause} ${size} ${from} ${part.length}`, async (signal) => {
    const lists = await Promise.all(part.map((group) => timelineOf(place.ledger, group.value, size, searched, signal)));
    const found = part.flatMap((group, i): Found[] => {
      const list = lists[i];
      return list && tally(list.rows).some(([one]) => one === cause) ? [{ group, list }] : [];
    });
    return { found, partly: lists.filter((list) => list.next).length };
  });
  const range = from === 0 && end === groups.length && whole ? "" : `Of the inputs ${number(from + 1)} to ${number(end)}, `;
  return (
    <Loads of={loading} lines={6}>{({ found, partly }) => (
      <>
        <p class="sentence">{range}{range === "" ? count(found.length, "input") : found.length === 0 ? "none" : number(found.length)} {found.length === 1 || (found.length === 0 && range !== "") ? "has" : "have"} a change with the cause “{causeOf(cause).name}”.</p>
        {found.length > 0 && <StripKey />}
        <ol class="inputs">{found.map((one) => <InputRuns key={one.group.value} group={{ ...one.group, ...(one.list.rows[0]?.names?.input ? { name: one.list.rows[0].names.input } : {}) }} loading={{ state: "ready", value: one.list, again: () => undefined }} />)}</ol>
        <p class="fold">
          {from > 0 && <a href={withQuery(place, { from: Math.max(0, from - looked) || undefined })}>Previous {number(looked)} inputs</a>}
          {end < groups.length && <a href={withQuery(place, { from: end })}>Next {number(Math.min(looked, groups.length - end))} inputs</a>}
        </p>
        {partly > 0 && <p class="note">{count(partly, "input")} of these {partly === 1 ? "has" : "have"} more than {number(searched)} runs; the search covers the first {number(searched)}.</p>}
        {!whole && end >= groups.length && <p class="note">The search for a cause covers the first {number(groups.length)} inputs.</p>}
        <AsOf size={size} />
      </>
    )}</Loads>
  );
}

function Input({ group }: { group: Group }) {
  const place = usePlace();
  const loading = useLoad(`${place.ledger} strip ${group.value} ${asOf(place) ?? group.last_seq}`, (signal) => timelineOf(place.ledger, group.value, asOf(place), shown, signal));
  return <InputRuns group={group} loading={loading} />;
}

function InputRuns({ group, loading }: { group: Group; loading: Loading<Timeline> }) {
  const link = useLink();
  return (
    <li>
      <h2 class="instruction"><a href={link("timeline", [], { input: group.value })}><Named name={group.name} hash={group.value} most={160} /></a></h2>
      <p class="quiet small">{count(group.runs, "run")}, {count(group.distinct_outputs, "different output")}; {group.distinct_outputs === group.runs ? "no output occurred twice" : `the most common one occurred in ${percent(group.stability)} of the runs`}.</p>
      <Loads of={loading} lines={1}>{(list) => (
        <>
          <Strip runs={list.rows.slice(0, shown)} letters={letters(list.rows.map((run) => run.output_hash))} label="Outputs over time, the oldest first" href={(run) => link("record", [run.seq])} more={list.next ? group.runs - shown : Math.max(0, list.rows.length - shown)} />
          <p>{why(list.rows, Boolean(list.next))}</p>
        </>
      )}</Loads>
    </li>
  );
}
