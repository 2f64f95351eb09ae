import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { address, request, type Schemas } from "../api/client.ts";
import type { LiveSummary } from "../api/follow.ts";
import { useGet, useLatest, useLoad } from "../api/load.ts";
import { ingestRate, rateWords, signers } from "../changes.ts";
import { TimeChart } from "../parts/chart.tsx";
import { useLedgers } from "../parts/layout.tsx";
import { useGrown, useLive, useNow, useSlowly, type Live } from "../parts/live.ts";
import { AsOf, CauseSign } from "../parts/marks.tsx";
import { useLedger } from "../parts/may.ts";
import { RecordLink } from "../parts/name.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Line } from "../parts/text.tsx";
import { ago, Time } from "../parts/time.tsx";
import { asOf, href, useLink, usePlace, withQuery } from "../router.ts";
import { causeOf, causeOrder, count, kindName, kinds, listed, number, percent, variableName } from "../words.ts";

type Rates = Schemas["Rates"];

/** OverviewPage shows what a ledger holds, why outputs changed, what is wrong, and what is new. It follows the ledger unless it is fixed to a tree size. */
export function OverviewPage() {
  const place = usePlace(), fixed = asOf(place);
  const live = useLive(place.ledger, fixed === undefined);
  const size = useSlowly(live.summary?.tree_size ?? 0, 3000);
  const summary = useLatest(useLoad(`${place.ledger} live once`, (signal) => summaryOf(place.ledger, signal)));
  const spans = spanOf(place.query.get("span"));
  const totals = useGrown(`${place.ledger} totals ${fixed ?? ""}`, fixed ?? size, (signal) => ratesOf(place.ledger, fixed, undefined, signal));
  const newest = live.summary ?? (summary.state === "ready" ? summary.value : undefined);
  return (
    <>
      <header class="overview-head">
        <p class="eyebrow">ledger</p>
        <h1>{place.ledger}</h1>
        {fixed === undefined ? <Loads of={summary} lines={2}>{() => newest && <Lede summary={newest} connected={live.connected} />}</Loads>
          : <Loads of={totals} lines={2}>{(counted) => <FixedLede counted={counted} />}</Loads>}
      </header>
      {newest?.tree_size === 1 && fixed === undefined ? <Nothing /> : (
        <>
          {fixed === undefined && newest && <Figures summary={newest} live={live} />}
          <Loads of={totals} lines={8}>{(counted) => <Causes counted={counted} />}</Loads>
          <section>
            <div class="with-choice"><h2>Over time</h2><Spans chosen={spans.name} /></div>
            <Loads of={totals} lines={6}>{(counted) => spans.seconds === undefined ? <OverTime counted={counted} /> : <Lately seconds={spans.seconds} size={fixed ?? size} fixed={fixed} end={endOf(counted)} />}</Loads>
          </section>
          <div class="columns">
            <Loads of={totals} lines={4}>{(counted) => <Wrong counted={counted} />}</Loads>
            {fixed === undefined && newest && <Useless summary={newest} />}
          </div>
          <Newest size={fixed ?? size} fixed={fixed} />
          <div class="columns">
            <Checkpoint size={fixed === undefined ? size : undefined} time={live.summary?.time} fixed={fixed} />
            <Ledgers size={size} time={live.summary?.time} />
          </div>
        </>
      )}
      {totals.state === "ready" && <AsOf size={totals.value.as_of} />}
    </>
  );
}

/** endOf returns the end of the last period with events, in milliseconds. */
function endOf(counted: Rates): number {
  return Date.parse(counted.rows.findLast((row) => row.events > 0)?.until ?? new Date().toISOString());
}

/** Lately shows what was recorded in the time before now, or before `end` if the tree size is fixed. */
function Lately({ seconds, size, fixed, end }: { seconds: number; size: number; fixed: number | undefined; end: number }) {
  const { ledger } = usePlace();
  const rates = useGrown(`${ledger} rates ${fixed ?? ""} ${seconds}`, size, (signal) => ratesOf(ledger, fixed, (fixed === undefined ? Date.now() : end) - seconds * 1000, signal));
  return <Loads of={rates} lines={6}>{(counted) => <OverTime counted={counted} />}</Loads>;
}

async function summaryOf(ledger: string, signal: AbortSignal): Promise<LiveSummary> {
  const response = await request(address("/v1/ledgers/{ledger}/live", { ledger }), { signal, headers: { Accept: "application/json" } });
  return (await response.json()) as LiveSummary;
}

/** ratesOf counts the events since a time in milliseconds, or all of them. */
async function ratesOf(ledger: string, size: number | undefined, from: number | undefined, signal: AbortSignal): Promise<Rates> {
  const since = from === undefined ? undefined : new Date(from).toISOString();
  const response = await request(address("/v1/ledgers/{ledger}/rates", { ledger }, { since, as_of: size }), { signal, headers: { Accept: "application/json" } });
  return (await response.json()) as Rates;
}

const spans = [
  { name: "all", title: "All", seconds: undefined },
  { name: "week", title: "7 days", seconds: 7 * 86_400 },
  { name: "day", title: "24 hours", seconds: 86_400 },
  { name: "hour", title: "1 hour", seconds: 3600 },
];

function spanOf(name: string | null): { name: string; seconds: number | undefined } {
  return spans.find((span) => span.name === name) ?? { name: "all", seconds: undefined };
}

function Spans({ chosen }: { chosen: string }) {
  const place = usePlace();
  return <ul class="choice" aria-label="Time">{spans.map((span) => <li key={span.name}><a href={withQuery(place, { span: span.name === "all" ? undefined : span.name })} aria-current={span.name === chosen ? "true" : undefined}>{span.title}</a></li>)}</ul>;
}

/** Nothing is what an empty ledger shows. */
export function Nothing() {
  return (
    <Empty title="How to add records">
      Import records with <code>colophon import FILE</code>, or let a service post them to <code>/v1/ledgers/…/ipc-records</code>. <a href="docs">The API</a> has an example for each kind.
    </Empty>
  );
}

function Lede({ summary, connected }: { summary: LiveSummary; connected: boolean }) {
  const now = useNow(1000);
  const held = ["ipc_record", "run_dag", "citation_set", "path_fingerprint"].filter((kind) => (summary.records[kind] ?? 0) > 0).map((kind) => kinds(summary.records[kind] ?? 0, kind));
  return (
    <>
      <p class="lede">{held.length === 0 ? "It holds no records yet." : <>It holds {listed(held)}. The newest event was recorded {ago(new Date(summary.time), new Date(now))}.</>}</p>
      <p class="small quiet"><span class={connected ? "pulse on" : "pulse"} aria-hidden="true" /> {connected ? "Live: this page follows the ledger." : "Not live at the moment: the page shows the last known state."}</p>
    </>
  );
}

function sum(counted: Rates, of: (row: Schemas["Rate"]) => number): number {
  return counted.rows.reduce((all, row) => all + of(row), 0);
}

function FixedLede({ counted }: { counted: Rates }) {
  const last = counted.rows.findLast((row) => row.events > 0);
  return (
    <>
      <p class="lede">This is the ledger with its first {count(counted.as_of, "event")}{last && <>, as it was on <Time at={last.until} exact /></>}.</p>
      <p class="small quiet">The number of records of each kind, and of incomplete records, is known only for the newest tree size.</p>
    </>
  );
}

function Figure({ title, value, children }: { title: string; value: string; children?: ComponentChildren }) {
  return <li><span class="quiet small">{title}</span><span class="big">{value}</span>{children !== undefined && <span class="small quiet">{children}</span>}</li>;
}

/** compared returns how many runs were compared with the one before, and how many of them changed. */
function compared(drift: Record<string, number>): { runs: number; changed: number } {
  const runs = Object.entries(drift).filter(([cause]) => cause !== "incomplete").reduce((all, [, n]) => all + n, 0);
  return { runs, changed: runs - (drift.identical ?? 0) - (drift.no_effect ?? 0) };
}

function Figures({ summary, live }: { summary: LiveSummary; live: Live }) {
  const now = useNow(2000);
  const frozen = useLedger()?.frozen ?? false;
  const rate = frozen ? 0 : live.connected ? ingestRate(live.heads, now) : undefined, { runs, changed } = compared(summary.drift);
  const without = summary.incomplete.output ?? 0;
  return (
    <ul class="figures">
      <Figure title="Tree size" value={number(summary.tree_size)}>{summary.index_size < summary.tree_size ? `${number(summary.tree_size - summary.index_size)} not indexed yet` : "events in the log"}</Figure>
      <Figure title="New events" value={rate === undefined ? "…" : rateWords(rate)}>in the last minute</Figure>
      <Figure title="Outputs that changed" value={runs === 0 ? "–" : percent(changed / runs)}>{runs === 0 ? "no input ran twice" : `of ${count(runs, "repeated run")}`}</Figure>
      <Figure title="Wrong claims" value={number(summary.mismatches)}>{summary.mismatches === 0 ? "no check found a wrong hash" : "checks that failed"}</Figure>
      {without > 0 && <Figure title="Without an output" value={number(without)}>cannot be compared</Figure>}
    </ul>
  );
}

/** Causes says why outputs changed: a bar, and its parts in words. */
function Causes({ counted }: { counted: Rates }) {
  const link = useLink();
  const total: Record<string, number> = {};
  for (const row of counted.rows) for (const [cause, n] of Object.entries(row.drift)) total[cause] = (total[cause] ?? 0) + n;
  const all = Object.values(total).reduce((a, b) => a + b, 0);
  const shown = Object.entries(total).sort((a, b) => b[1] - a[1]);
  if (all === 0) return <section><h2>Why outputs changed</h2><p>No input has run twice yet, so there is nothing to compare.</p></section>;
  return (
    <section>
      <h2>Why outputs changed</h2>
      <p>Each run is compared with the previous run of the same input. The shares are of the {count(all, "run")} that {all === 1 ? "has" : "have"} a previous run.</p>
      <div class="share-bar" role="img" aria-label={shown.map(([cause, n]) => `${causeOf(cause).name}: ${percent(n / all)}`).join("; ")}>
        {shown.map(([cause, n]) => <span key={cause} class={causeOf(cause).class} style={{ flexGrow: n }}>{n / all > 0.06 ? causeOf(cause).sign : ""}</span>)}
      </div>
      <ul class="causes">
        {shown.map(([cause, n]) => (
          <li key={cause}>
            <CauseSign cause={cause} /> <strong>{causeOf(cause).name}</strong> <span class="number">{percent(n / all)}</span> <span class="quiet small">{count(n, "run")}. {causeOf(cause).means}</span>
          </li>
        ))}
      </ul>
      <p><a href={link("changed")}>See the effect of each change</a> · <a href={link("unstable")}>See the inputs with the least stable outputs</a></p>
    </section>
  );
}

function OverTime({ counted }: { counted: Rates }) {
  const causes = causeOrder.filter((cause) => counted.rows.some((row) => (row.drift[cause] ?? 0) > 0));
  const times = useMemo(() => counted.rows.map((row) => Date.parse(row.since) / 1000), [counted]);
  const drift = useMemo(() => causes.map((cause) => ({ name: causeOf(cause).name, sign: causeOf(cause).sign, colour: `--cause-${cause}`, values: counted.rows.map((row) => row.drift[cause] ?? 0) })), [counted]);
  const events = useMemo(() => [{ name: "events", colour: "--link", values: counted.rows.map((row) => row.events) }], [counted]);
  const wrong = useMemo(() => [
    { name: "records with a wrong claim", sign: "✗", colour: "--bad", values: counted.rows.map((row) => row.mismatches) },
    { name: "generations without an output", sign: "?", colour: "--cause-incomplete", values: counted.rows.map((row) => row.no_output) }], [counted]);
  if (sum(counted, (row) => row.events) === 0) return <p>Nothing was recorded in this period.</p>;
  const period = `${periodWords(counted.step)} (UTC)`, bad = wrong.some((one) => one.values.some((n) => n > 0));
  return (
    <div class="columns">
      <div><h3>Events recorded, {period}</h3><TimeChart label={`Events recorded, ${period}`} times={times} series={events} step={counted.step} height={180} /></div>
      {causes.length > 0 && <div><h3>Runs by cause of change, {period}</h3><TimeChart label={`Runs by cause of change, ${period}`} times={times} series={drift} stacked step={counted.step} height={180} /></div>}
      {bad && <div><h3>Wrong claims and missing outputs, {period}</h3><TimeChart label={`Wrong claims and missing outputs, ${period}`} times={times} series={wrong} stacked step={counted.step} height={180} /></div>}
    </div>
  );
}

function periodWords(seconds: number): string {
  const [n, unit] = seconds % 86_400 === 0 ? [seconds / 86_400, "day"] : seconds % 3600 === 0 ? [seconds / 3600, "hour"] : seconds % 60 === 0 ? [seconds / 60, "minute"] : [seconds, "second"];
  return n === 1 ? `each ${unit}` : `every ${number(n)} ${unit}s`;
}

function Wrong({ counted }: { counted: Rates }) {
  const link = useLink(), wrong = sum(counted, (row) => row.mismatches), all = sum(counted, (row) => row.events);
  return (
    <section>
      <h2>Do the claims hold?</h2>
      {wrong === 0 ? <p>No claim of a service contradicts a hash that the ledger computed. Claims about texts that were not posted cannot be checked.</p>
        : <p><span class="says-bad">✗ {count(wrong, "record")} ({percent(wrong / all)} of all events) {wrong === 1 ? "has" : "have"} a wrong claim: the ledger computed a different hash than the service claimed.</span> <a href={link("records", [], { flag: "mismatch" })}>List {wrong === 1 ? "it" : "them"}</a></p>}
    </section>
  );
}

/** lacks says what the lack of a part means. */
const lacks: Record<string, string> = {
  output: "they cannot be compared with any other run", input: "they cannot be compared with any other run", system_prompt: "they cannot be paired with other runs", temperature: "they cannot be paired with other runs",
  max_tokens: "they cannot be paired with other runs", seed: "a change of their output can be chance",
};

/** Useless says which generations are of no use for drift, and why. */
function Useless({ summary }: { summary: LiveSummary }) {
  const link = useLink(), all = summary.records.ipc_record ?? 0;
  const lacking = Object.entries(summary.incomplete).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  return (
    <section>
      <h2>Not usable for comparisons</h2>
      {lacking.length === 0 ? <p class="says-good">✓ {all === 0 ? "There are no generations yet." : "Every generation has an input, a prompt, an output, and all settings."}</p> : (
        <ul class="plain-list">{lacking.map(([part, n]) => (
          <li key={part}><a href={link("records", [], { incomplete: part })}>{kinds(n, "ipc_record")} without {part === "output" || part === "input" ? "an" : "a"} {variableName(part)}</a> <span class="quiet">({percent(n / Math.max(1, all))} of all generations): {lacks[part] ?? "the record is incomplete"}.</span></li>
        ))}</ul>
      )}
    </section>
  );
}

/** Newest lists the newest events in words. */
function Newest({ size, fixed }: { size: number; fixed: number | undefined }) {
  const place = usePlace(), link = useLink();
  const loading = useGrown(`${place.ledger} newest ${fixed ?? ""}`, size, async (signal) => {
    const response = await request(address("/v1/ledgers/{ledger}/records", { ledger: place.ledger }, { limit: 10, names: true, state: "any", as_of: fixed }), { signal, headers: { Accept: "application/json" } });
    return (await response.json()) as Schemas["RecordList"];
  });
  return (
    <section>
      <div class="with-choice"><h2>Newest records</h2><a href={link("records")}>All records</a></div>
      <Loads of={loading} lines={6}>{(list) => list.rows.length === 0 ? <p>There are no records yet.</p> : (
        <ol class="newest">{list.rows.map((row) => (
          <li key={row.seq}>
            <span class="quiet small">{kindName(row.kind)}</span>
            <span><RecordLink seq={row.seq} kind={row.kind} name={row.name} />{row.mismatches.length > 0 && <span class="says-bad small"> ✗ wrong claim</span>}</span>
            <span class="quiet small"><Time at={row.time} /></span>
          </li>
        ))}</ol>
      )}</Loads>
    </section>
  );
}

function Checkpoint({ size = 0, time, fixed }: { size: number | undefined; time: string | undefined; fixed: number | undefined }) {
  const place = usePlace(), ledger = useLedger();
  const note = useGrown(`${place.ledger} checkpoint`, size, async (signal) => {
    const text = await (await request(address("/v1/ledgers/{ledger}/log/checkpoint", { ledger: place.ledger }), { signal })).text();
    return { text, as_of: Number(text.split("\n")[1]) };
  });
  return (
    <section>
      <h2>Checkpoint</h2>
      {fixed !== undefined && <p class="quiet">This is the newest checkpoint. It also covers tree size {number(fixed)}.</p>}
      <Loads of={note} lines={3}>{({ text, as_of: covers }) => {
        const names = signers(text), witnesses = names.filter((one) => one.witness);
        return (
          <>
            <p>{ledger && <>Signed <Time at={time ?? ledger.last_event} /> </>}for {count(covers, "event")}, by {names.filter((one) => !one.witness).map((one) => <strong key={one.name}><Line text={one.name} /></strong>)}.{" "}
              {witnesses.length === 0 ? "No witness has cosigned it." : <>It also has {count(witnesses.length, "signature")} in the name of a witness, which this page does not check: {witnesses.map((one, i) => <span key={one.name}>{i > 0 && ", "}<strong><Line text={one.name} /></strong></span>)}.</>}</p>
            <Key ledger={place.ledger} />
          </>
        );
      }}</Loads>
    </section>
  );
}

/** Key shows the key of a ledger when it is opened: it can have changed since the page was loaded. */
function Key({ ledger }: { ledger: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="small" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The key that verifies it</summary>
      {open && <KeyText ledger={ledger} />}
    </details>
  );
}

function KeyText({ ledger }: { ledger: string }) {
  const loading = useGet("/v1/ledgers/{ledger}", { ledger });
  return <Loads of={loading} lines={1}>{(described) => <code>{described.verifier_key}</code>}</Loads>;
}

function Ledgers({ size, time }: { size: number; time: string | undefined }) {
  const place = usePlace(), ledgers = useLedgers();
  return (
    <section>
      <h2>Ledgers on this server</h2>
      <Loads of={ledgers} lines={2}>{(list) => (
        <ul class="plain-list">{list.map((one) => (
          <li key={one.name}><a href={href(one.name)} aria-current={one.name === place.ledger ? "page" : undefined}>{one.name}</a> <span class="quiet">{count(Math.max(one.tree_size, one.name === place.ledger ? size : 0), "event")}, the newest <Time at={one.name === place.ledger ? time ?? one.last_event : one.last_event} />{one.frozen && "; frozen: it accepts no more writes"}</span></li>
        ))}</ul>
      )}</Loads>
    </section>
  );
}
