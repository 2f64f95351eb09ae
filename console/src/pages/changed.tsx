import { useEffect, useRef, useState } from "preact/hooks";
import type { OpenQuery, Schemas } from "../api/client.ts";
import { get } from "../api/client.ts";
import { lanes, useGet, useLatest, useLoad, usePages, type Loading } from "../api/load.ts";
import { effectWords, lengthBars, suggestions, variableOf, type Suggestion } from "../changes.ts";
import { ChangesNav, Pair } from "../parts/changes.tsx";
import { Bars } from "../parts/chart.tsx";
import { AsOf } from "../parts/marks.tsx";
import { useLedger } from "../parts/may.ts";
import { Named, plainName, type Name } from "../parts/name.tsx";
import { firstLine, plainly } from "../parts/safe.ts";
import { RecordsCompared } from "../parts/sidebyside.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Listed } from "../parts/table.tsx";
import { Line, Raw } from "../parts/text.tsx";
import { asOf, go, useLink, usePlace, withQuery, type Place } from "../router.ts";
import { count, listed, number, percent, similarityMeans, variableName } from "../words.ts";

/** Choice is a value of a variable, with its name. */
interface Choice {
  value: string;
  name?: Name | undefined;
  runs?: number;
  seq: number; // a run with the value
}

const most = 100; // choices of one variable

/** choicesOf lists the values of a variable by their numbers of runs. An earlier tree size has no such order: then the newest value comes first. */
async function choicesOf(ledger: string, variable: string, size: number | undefined, signal: AbortSignal): Promise<Choice[]> {
  if (variable === "temperature" || variable === "max_tokens") {
    const list = await get("/v1/ledgers/{ledger}/drift/values", { ledger }, { of: variable, as_of: size, limit: most }, signal);
    return list.rows.map((row) => ({ value: row.value, seq: row.seq }));
  }
  const order = size === undefined ? { sort: "runs" } : { as_of: size };
  const list = await get("/v1/ledgers/{ledger}/drift/groups", { ledger }, { by: variable, ...order, names: true, limit: most }, signal);
  return list.rows.map((row) => ({ value: row.value, name: row.name, runs: row.runs, seq: row.seq }));
}

function useChoices(place: Place, variable: string): Loading<Choice[]> {
  return useLoad(`${place.ledger} values of ${variable} ${asOf(place) ?? ""}`, (signal) => choicesOf(place.ledger, variable, asOf(place), signal));
}

const variables = ["model", "system_prompt_hash", "temperature", "max_tokens", "ollama_build_hash"];
const plural: Record<string, string> = { model: "models", system_prompt_hash: "prompts", temperature: "temperatures", max_tokens: "token limits", ollama_build_hash: "Ollama builds" };

/** ChangedPage shows what the change from one value of a variable to another did to the outputs. */
export function ChangedPage() {
  const place = usePlace();
  const variable = place.query.get("variable") ?? "model", a = place.query.get("a") ?? "", b = place.query.get("b") ?? "";
  const choices = useChoices(place, variable);
  return (
    <>
      <h1>What changed</h1>
      <ChangesNav />
      <Picker variable={variable} a={a} b={b} choices={choices.state === "ready" ? choices.value : undefined} />
      {choices.state !== "ready" && <Loads of={choices} lines={1}>{() => null}</Loads>}
      {a !== "" && b !== "" && a !== b ? <Effect key={`${variable} ${a} ${b}`} variable={variable} a={a} b={b} choices={choices.state === "ready" ? choices.value : []} /> : (
        <>
          {a !== "" && a === b && <p class="note">Choose two different values.</p>}
          <Suggested />
        </>
      )}
    </>
  );
}

interface Labels {
  useful: string[];
  scattered: string[]; // nearly every run has another value
}

const lane = lanes(3);
const judged = 24; // labels whose values are looked at

/** useLabels lists the labels of runs. A label such as span_id has another value in nearly every run, so its values have no runs to compare. */
function useLabels(): Labels {
  const place = usePlace(), { ledger } = place, size = asOf(place), events = useLedger()?.tree_size ?? 0;
  const loading = useLoad(`${ledger} labels ${size ?? ""}`, async (signal) => {
    const list = await get("/v1/ledgers/{ledger}/drift/values", { ledger }, { of: "label", as_of: size, limit: 50 }, signal);
    const names = list.rows.map((row) => row.value), labels: Labels = { useful: [], scattered: [] };
    const most = await Promise.all(names.map(async (name, i) => {
      if (size !== undefined || i >= judged) return undefined; // an earlier size has no order by runs
      return (await lane(() => get("/v1/ledgers/{ledger}/drift/groups", { ledger }, { by: `label:${name}`, sort: "runs", limit: 1 }, signal))).rows[0]?.runs;
    }));
    names.forEach((name, i) => {
      const runs = most[i];
      (runs !== undefined && runs <= Math.max(1, events / 200) ? labels.scattered : labels.useful).push(`label:${name}`);
    });
    return labels;
  });
  return loading.state === "ready" ? loading.value : { useful: [], scattered: [] };
}

/** Picker chooses a variable and two of its values. It stays while values are loaded, so that a menu keeps the focus. */
function Picker({ variable, a, b, choices }: { variable: string; a: string; b: string; choices: readonly Choice[] | undefined }) {
  const place = usePlace();
  const labels = useLabels();
  const offered = [...variables, ...labels.useful];
  if (!offered.includes(variable) && !labels.scattered.includes(variable)) offered.push(variable);
  const option = (one: string) => <option key={one} value={one}>{plural[one] ?? plainly(firstLine(`values of ${variableOf(one)}`, 60))}</option>;
  const set = (query: Record<string, string | undefined>) => go(withQuery(place, { variable, ...query }));
  return (
    <>
      <form class="row picker" onSubmit={(event) => event.preventDefault()}>
        <label>Compare two
          <select value={variable} onChange={(event) => set({ variable: event.currentTarget.value, a: undefined, b: undefined })}>
            {offered.map(option)}
            {labels.scattered.length > 0 && <optgroup label="Labels with another value in nearly every run">{labels.scattered.map(option)}</optgroup>}
          </select>
        </label>
        <Values title="Before" chosen={a} choices={choices ?? []} onChange={(value) => set({ a: value })} />
        <Values title="After" chosen={b} choices={choices ?? []} onChange={(value) => set({ b: value })} />
        <button type="button" disabled={a === "" && b === ""} onClick={() => set({ a: b || undefined, b: a || undefined })} title="Swap before and after">⇄<span class="unseen"> Swap before and after</span></button>
      </form>
      {choices && choices.length < 2 && <p class="note">{choices.length === 0 ? <>No run has a value for <Raw text={variableOf(variable)} />.</> : <>All runs have the same <Raw text={variableOf(variable)} />: <Line text={choices[0] ? plainName(choices[0].name, choices[0].value) : ""} />. Choose something else to compare.</>}</p>}
    </>
  );
}

function Values({ title, chosen, choices, onChange }: { title: string; chosen: string; choices: readonly Choice[]; onChange: (value: string) => void }) {
  const known = choices.some((choice) => choice.value === chosen);
  return (
    <label class="value">{title}
      <select value={chosen} onChange={(event) => onChange(event.currentTarget.value)}>
        {chosen === "" && <option value="">choose…</option>}
        {!known && chosen !== "" && <option value={chosen}>{optionText({ value: chosen, seq: -1 })}</option>}
        {choices.map((choice) => <option key={choice.value} value={choice.value}>{optionText(choice)}</option>)}
      </select>
    </label>
  );
}

function optionText(choice: Choice): string {
  const name = choice.name ? plainName(choice.name, choice.value) : /^[0-9a-f]{64}$/.test(choice.value) ? plainName(undefined, choice.value) : choice.value;
  return `${plainly(firstLine(name, 70))}${choice.runs === undefined ? "" : ` (${count(choice.runs, "run")})`}`;
}

/** Suggested offers comparisons for which there are runs: single changes in the histories of the inputs with the most different outputs. */
function Suggested() {
  const place = usePlace();
  const loading = useLoad(`${place.ledger} suggestions ${asOf(place) ?? ""}`, (signal) => suggest(place.ledger, asOf(place), signal));
  const prompts = useChoices(place, "system_prompt_hash");
  const named = new Map(prompts.state === "ready" ? prompts.value.map((one) => [one.value, one]) : []);
  return (
    <section>
      <h2>Changes that happened in this ledger</h2>
      <Loads of={loading} lines={4}>{(found) => found.length === 0 ? (
        <Empty title="There is no comparison to suggest yet">Run the same inputs with another model, prompt, or temperature, and this page shows the effect. Choose a label above to compare its values.</Empty>
      ) : (
        <>
          <p>In each of these comparisons, one condition changed while everything else stayed the same.</p>
          <ul class="suggestions">{found.map((one) => <li key={`${one.variable} ${one.a} ${one.b}`}><a href={withQuery(place, { variable: one.variable, a: one.a, b: one.b })}>
            <span class="quiet small">{variableOf(one.variable)}</span>
            <span><ValueName choice={named.get(one.a) ?? { value: one.a }} /> → <ValueName choice={named.get(one.b) ?? { value: one.b }} /></span>
          </a></li>)}</ul>
        </>
      )}</Loads>
    </section>
  );
}

const looked = 3; // histories in which suggestions are looked for

async function suggest(ledger: string, size: number | undefined, signal: AbortSignal): Promise<Suggestion[]> {
  const order = size === undefined ? { sort: "stability" } : { as_of: size };
  const groups = await get("/v1/ledgers/{ledger}/drift/groups", { ledger }, { by: "input", min_outputs: 2, ...order, limit: looked }, signal);
  const timelines = await Promise.all(groups.rows.map((row) => get("/v1/ledgers/{ledger}/drift/timeline", { ledger }, { input: row.value, as_of: size, limit: 25 }, signal)));
  return suggestions(timelines.map((timeline) => timeline.rows));
}

/** ValueName is the name of a value in a sentence: for a prompt its label, or its first words. */
function ValueName({ choice }: { choice: Pick<Choice, "value" | "name"> }) {
  if (choice.name?.label !== undefined) return <strong><Line text={choice.name.label} most={50} /></strong>;
  if (choice.name?.words !== undefined) return <strong>“<Line text={choice.name.words + (choice.name.cut ? "…" : "")} most={50} />”</strong>;
  if (/^[0-9a-f]{64}$/.test(choice.value)) return <Named name={undefined} hash={choice.value} />;
  return <strong><Line text={choice.value} most={50} /></strong>;
}

/** Counted is what a change did, and how to count the pairs that the answer leaves out. */
interface Counted {
  loading: Loading<Schemas["EffectsAnswer"]>;
  countAll: (() => void) | undefined; // undefined if the answer counts all pairs
  counting: boolean;
}

/** useEffectOf loads what the change of a variable did. The answer counts only the newest pairs, which takes as long on a large ledger as on a small one, until the reader wants to count all. */
function useEffectOf(variable: string, a: string, b: string, limit: number): Counted {
  const { ledger } = usePlace(), size = asOf(usePlace()), query = { variable, a, b }, key = JSON.stringify(query);
  const [wanted, setWanted] = useState("");
  const first = useLatest(useGet("/v1/ledgers/{ledger}/drift/effects", { ledger }, { ...query, text: true, names: true, totals: "first", as_of: size, limit }));
  const newest = first.state === "ready" && first.value.sample ? first.value : undefined;
  // If the newest runs have no pairs, others can have some.
  const counted = newest && (wanted === key || newest.pairs === 0) ? newest.as_of : undefined;
  const all = useLoad(`${ledger} totals ${key} ${counted ?? ""}`, (signal) =>
    counted === undefined ? Promise.resolve(undefined) : get("/v1/ledgers/{ledger}/drift/effects", { ledger }, { ...query, as_of: counted, limit: 1 }, signal));
  if (first.state !== "ready" || !newest) return { loading: first, countAll: undefined, counting: false };
  if (all.state === "ready" && all.value) {
    const { pairs, changed, unchanged } = all.value, value = { ...newest, pairs, changed, unchanged };
    delete value.sample;
    return { loading: { ...first, value }, countAll: undefined, counting: false };
  }
  const loading = all.state === "failed" || (newest.pairs === 0 && all.state !== "ready") ? all : first;
  return { loading, countAll: () => setWanted(key), counting: counted !== undefined };
}

function Effect({ variable, a, b, choices }: { variable: string; a: string; b: string; choices: readonly Choice[] }) {
  const place = usePlace();
  const [limit, setLimit] = useState(10);
  const { loading, countAll, counting } = useEffectOf(variable, a, b, limit);
  const before: Choice = choices.find((one) => one.value === a) ?? { value: a, seq: -1 }, after: Choice = choices.find((one) => one.value === b) ?? { value: b, seq: -1 };
  return (
    <Loads of={loading} lines={12}>
      {(answer) => answer.pairs === 0 ? <><NoPairs variable={variable} a={before} b={after} incomplete={answer.incomplete} /><AsOf size={answer.as_of} /></> : (
        <>
          <Summary variable={variable} before={before} after={after} answer={answer}>
            {countAll && <p class="small"><button type="button" class="link" aria-disabled={counting} onClick={countAll}>{counting ? "Counting all pairs…" : "Count all pairs"}</button></p>}
          </Summary>
          {variable === "system_prompt_hash" && before.seq >= 0 && after.seq >= 0 && (
            <section><h2>The two prompts</h2><RecordsCompared ledger={place.ledger} from={before.seq} to={after.seq} of="prompt" a={<ValueName choice={before} />} b={<ValueName choice={after} />} /></section>
          )}
          <Pairs variable={variable} a={a} b={b} before={before} after={after} answer={answer} more={limit < 50 ? () => setLimit(50) : undefined} />
          <AsOf size={answer.as_of} />
        </>
      )}
    </Loads>
  );
}

function NoPairs({ variable, a, b, incomplete }: { variable: string; a: Choice; b: Choice; incomplete: readonly string[] | undefined }) {
  return (
    <Empty title={`No two runs differ only in the ${plainly(variableOf(variable))}`}>
      Runs with <ValueName choice={a} /> and runs with <ValueName choice={b} /> also differ in other conditions (the input, the prompt, or another setting), so their outputs cannot be compared fairly.
      {incomplete && incomplete.length > 0 && ` Some generations lack ${listed(incomplete.map((part) => variableName(part)))}, which can be the reason.`}
    </Empty>
  );
}

/** Summary says in words and figures what a change did. */
function Summary({ variable, before, after, answer, children }: { variable: string; before: Choice; after: Choice; answer: Schemas["EffectsAnswer"]; children: preact.ComponentChildren }) {
  const { text } = answer, share = answer.changed / answer.pairs;
  const [first = "", ...rest] = effectWords(answer);
  const lengths = lengthBars(text?.words_histogram ?? []);
  return (
    <section class="effect">
      <p class="eyebrow"><Raw text={variableOf(variable)} /></p>
      <h2 class="headline">From <ValueName choice={before} /> to <ValueName choice={after} />: {first}</h2>
      {rest.map((sentence) => <p key={sentence} class="lede">{sentence}</p>)}
      <div class="share-bar" role="img" aria-label={`${percent(share)} of the outputs changed`}>
        {answer.changed > 0 && <span class="part-changed" style={{ flexGrow: answer.changed }}>{share > 0.2 ? `${number(answer.changed)} changed` : ""}</span>}
        {answer.unchanged > 0 && <span class="part-same" style={{ flexGrow: answer.unchanged }}>{share < 0.8 ? `${number(answer.unchanged)} the same` : ""}</span>}
      </div>
      {children}
      <p class="quiet small">A pair is two runs with the same input and the same settings, except for the <Raw text={variableOf(variable)} />. {text && similarityMeans} {text?.sample && `Word similarity and lengths are those of the newest ${count(text.pairs, "pair")}. `}{text && text.unavailable > 0 && `${count(text.unavailable, "pair")} ${text.unavailable === 1 ? "has" : "have"} no texts that can be compared.`}</p>
      {text && text.pairs > 0 && (
        <div class="columns">
          <div>
            <h3>Word similarity</h3>
            <Bars label="Pairs by the word similarity of their outputs" low="0 %: no word in common" high="the same words: 100 %" bars={text.similarity_histogram.map((n, i) => ({ title: `${i * 10} to ${i * 10 + 10} %`, value: n }))} />
          </div>
          <div>
            <h3>Length of the outputs</h3>
            <p class="legend"><span><i class="swatch bar-a" /> before: <ValueName choice={before} /></span><span><i class="swatch bar-b" /> after: <ValueName choice={after} /></span></p>
            <Bars label="Outputs by their length in words" names={["before", "after"]} low="0 words" high={lengths.high} bars={lengths.bars} />
          </div>
        </div>
      )}
    </section>
  );
}

function Pairs({ variable, a, b, before, after, answer, more }: { variable: string; a: string; b: string; before: Choice; after: Choice; answer: Schemas["EffectsAnswer"]; more: (() => void) | undefined }) {
  const place = usePlace(), link = useLink();
  const inOrder = place.query.get("order") === "recorded" || !answer.text || answer.text.pairs === 0;
  const sides = { left: <ValueName choice={before} />, right: <ValueName choice={after} /> };
  const ranked = answer.text?.most_changed ?? [];
  const list = useRef<HTMLDivElement>(null), firstNew = useRef<number | undefined>(undefined);
  useEffect(() => { // "Show more" is gone when the new pairs are there, so the focus goes to the first of them
    if (firstNew.current === undefined || ranked.length <= firstNew.current) return;
    list.current?.children[firstNew.current]?.querySelector("summary")?.focus();
    firstNew.current = undefined;
  }, [ranked.length]);
  return (
    <section>
      <div class="with-choice">
        <h2>{inOrder ? "Pairs, newest first" : "Pairs, the least similar first"}</h2>
        {answer.text && <ul class="choice" aria-label="Order of the pairs">
          <li><a href={withQuery(place, { order: undefined })} aria-current={inOrder ? undefined : "true"}>Least similar first</a></li>
          <li><a href={withQuery(place, { order: "recorded" })} aria-current={inOrder ? "true" : undefined}>All, newest first</a></li>
        </ul>}
      </div>
      {!answer.text && <p class="note">The texts cannot be shown: your token does not permit reading them, or they were not posted. Each pair still leads to its two records. <a href={link("search")}>Search the ledger</a></p>}
      {inOrder ? <AllPairs query={{ variable, a, b, text: true, names: true, totals: "first", as_of: asOf(place), limit: 25 }} {...sides} /> : (
        <>
          <div class="pairs" ref={list}>{ranked.map((pair, i) => <Pair key={`${pair.a} ${pair.b}`} ledger={place.ledger} a={pair.a} b={pair.b} name={pair.name} change={{ similarity: pair.similarity, ...(pair.length_change === undefined ? {} : { length_change: pair.length_change }) }} open={i === 0} {...sides} />)}</div>
          {more && ranked.length < (answer.text?.pairs ?? 0) && <p><button type="button" onClick={() => { firstNew.current = ranked.length; more(); }}>Show more</button></p>}
        </>
      )}
    </section>
  );
}

function AllPairs({ query, left, right }: { query: OpenQuery; left: preact.ComponentChildren; right: preact.ComponentChildren }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/drift/effects", { ledger: place.ledger }, query);
  return (
    <Listed of={pages} empty={null} marked={false}>
      {(rows) => <div class="pairs">{rows.map((pair) => <Pair key={pair.seq} ledger={place.ledger} a={pair.a.seq} b={pair.b.seq} name={pair.a.names?.input ?? { words: pair.a.run_id ?? `record ${pair.a.seq}` }} change={pair.text ?? (pair.output_changed ? undefined : { similarity: 1 })} left={left} right={right} />)}</div>}
    </Listed>
  );
}
