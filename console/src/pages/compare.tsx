import { useState } from "preact/hooks";
import type { Schemas } from "../api/client.ts";
import { useGet } from "../api/load.ts";
import { attributionWords, plain, valueWords } from "../changes.ts";
import { ChangesNav, Opens, PromptNames, Value } from "../parts/changes.tsx";
import { AsOf, CauseChip, StateChip } from "../parts/marks.tsx";
import { Named, RecordLink } from "../parts/name.tsx";
import { RecordsCompared, RecordText } from "../parts/sidebyside.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Line, Raw } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { asOf, go, useLink, usePlace, withQuery } from "../router.ts";
import { number, variableName } from "../words.ts";

/** ComparePage says in one sentence why the outputs of two records differ, and shows their variables and texts side by side. */
export function ComparePage() {
  const place = usePlace();
  const a = seqOf(place.query.get("a")), b = seqOf(place.query.get("b"));
  return (
    <>
      <h1>What changed</h1>
      <ChangesNav />
      <Which key={`${a ?? ""} ${b ?? ""}`} a={a} b={b} />
      {a !== undefined && b !== undefined ? <PromptNames><Comparison key={`${a} ${b}`} a={a} b={b} /></PromptNames> : <Empty title="Choose two generations">Enter the numbers of two records. The number of a record is at the top of its page. Use the search to find records by words, run, or hash.</Empty>}
    </>
  );
}

function seqOf(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function Which({ a, b }: { a: number | undefined; b: number | undefined }) {
  const place = usePlace();
  const [before, setBefore] = useState(a === undefined ? "" : String(a)), [after, setAfter] = useState(b === undefined ? "" : String(b));
  return (
    <form class="row" onSubmit={(event) => {
      event.preventDefault();
      go(withQuery(place, { a: before.trim(), b: after.trim() }));
    }}>
      <label>First record<input inputMode="numeric" pattern="[0-9]+" required size={10} value={before} onInput={(event) => setBefore(event.currentTarget.value)} /></label>
      <label>Second record<input inputMode="numeric" pattern="[0-9]+" required size={10} value={after} onInput={(event) => setAfter(event.currentTarget.value)} /></label>
      <button type="submit" class="primary">Compare</button>
      {a !== undefined && b !== undefined && <button type="button" onClick={() => go(withQuery(place, { a: b, b: a }))}>Swap</button>}
    </form>
  );
}

function Comparison({ a, b }: { a: number; b: number }) {
  const place = usePlace();
  const loading = useGet("/v1/ledgers/{ledger}/drift/attribution", { ledger: place.ledger }, { a, b, names: true, text: true, as_of: asOf(place) });
  return (
    <Loads of={loading} lines={8}>
      {(answer) => {
        const differs = (variable: string) => answer.differences.some((one) => one.variable === variable);
        return (
          <>
            <section>
              <p><CauseChip cause={answer.cause} /></p>
              <h2 class="headline"><Raw text={attributionWords(answer)} /></h2>
            </section>
            <Variables answer={answer} />
            <section>
              <h2>The outputs</h2>
              {answer.output_changed ? <Texts answer={answer} of="output" /> : <p>The two outputs are the same: <span class="words"><Named name={answer.a.names?.output} hash={answer.a.output_hash} most={300} /></span></p>}
            </section>
            {differs("system_prompt") && <section><h2>The prompts</h2><Texts answer={answer} of="prompt" /></section>}
            {differs("input") ? <section><h2>The inputs</h2><Texts answer={answer} of="payload" /></section>
              : <section><h2>The input</h2><p>Both records have the same input: <span class="words"><Named name={answer.a.names?.input} most={160} /></span></p><Opens title="The whole input, as it was posted">{() => <RecordText ledger={place.ledger} seq={answer.a.seq} name="payload" label="Input" />}</Opens></section>}
            <AsOf size={answer.as_of} />
          </>
        );
      }}
    </Loads>
  );
}

function Texts({ answer, of }: { answer: Schemas["AttributionAnswer"]; of: string }) {
  const place = usePlace();
  return <RecordsCompared ledger={place.ledger} from={answer.a.seq} to={answer.b.seq} of={of} a={<>first · <RecordLink seq={answer.a.seq} /></>} b={<>second · <RecordLink seq={answer.b.seq} /></>} />;
}

interface Members {
  model?: string;
  temperature?: number;
  max_tokens?: number;
  seed?: number;
  environment?: Record<string, string>;
  labels?: Record<string, string>;
}

/** Variables shows what two runs were made from, side by side. What differs comes first and is marked. */
function Variables({ answer }: { answer: Schemas["AttributionAnswer"] }) {
  const place = usePlace(), link = useLink();
  const sides = [answer.a, answer.b] as const;
  const records = [
    useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq: answer.a.seq }, { as_of: asOf(place) }),
    useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq: answer.b.seq }, { as_of: asOf(place) }),
  ] as const;
  const members = records.map((record) => (record.state === "ready" ? (record.value.event.record as Members) : undefined));
  const both = (of: (members: Members) => unknown): [unknown, unknown] => [members[0] && of(members[0]), members[1] && of(members[1])];
  const known: [string, [unknown, unknown]][] = [
    ["model", both((one) => one.model)], ["temperature", both((one) => one.temperature)], ["max_tokens", both((one) => one.max_tokens)], ["seed", both((one) => one.seed)],
    ...["ollama_build_hash", "host_platform", "model_digest"].map((name): [string, [unknown, unknown]] => [name, both((one) => one.environment?.[name])]),
  ];
  const same = known.filter(([name, [a, b]]) => !answer.differences.some((one) => one.variable === name) && (a !== undefined || b !== undefined));
  const labels = [...new Set(members.flatMap((one) => Object.keys(one?.labels ?? {})))].sort();
  return (
    <section>
      <h2>Conditions of the two records</h2>
      <table class="variables" aria-label="The variables of the two records">
        <thead><tr><th scope="col">Variable</th>{sides.map((side, i) => (
          <th key={side.seq} scope="col"><RecordLink seq={side.seq}>{i === 0 ? "First" : "Second"}: <Line text={side.run_id ?? `record ${number(side.seq)}`} most={60} /></RecordLink> <StateChip state={side.state} /><br /><span class="quiet"><Time at={side.time} exact /></span></th>
        ))}</tr></thead>
        <tbody>
          {answer.differences.map((one) => <Row key={one.variable} title={variableName(one.variable)} differs a={<Value variable={one.variable} value={one.a} names={answer.a.names} most={160} />} b={<Value variable={one.variable} value={one.b} names={answer.b.names} most={160} />} />)}
          {answer.differences.flatMap((one) => one.members ?? []).map((member) => <Row key={member.pointer} title={<code><Line text={member.pointer} most={60} /></code>} differs a={<MemberValue value={member.a_value} digest={member.a} />} b={<MemberValue value={member.b_value} digest={member.b} />} />)}
          {["input", "system_prompt"].filter((variable) => !answer.differences.some((one) => one.variable === variable)).map((variable) => (
            <Row key={variable} title={variableName(variable)} a={<Named name={variable === "input" ? answer.a.names?.input : answer.a.names?.system_prompt} most={160} />} b={<span class="quiet">the same</span>} />
          ))}
          {same.map(([name, [a, b]]) => <Row key={name} title={variableName(name)} a={<Value variable={name} value={a} />} b={plain(a) === plain(b) ? <span class="quiet">the same</span> : <Value variable={name} value={b} />} />)}
          {labels.map((label) => {
            const [a, b] = both((one) => one.labels?.[label]);
            return <Row key={`label ${label}`} title={<>label <Line text={label} most={40} /></>} a={<Value variable="label" value={a} />} b={a === b ? <span class="quiet">the same</span> : <Value variable="label" value={b} />} />;
          })}
        </tbody>
      </table>
      {sides.some((side) => side.mismatches.length > 0) && <p class="says-bad">✗ A service claimed a wrong hash for one of the two records. The comparison uses the hashes that the ledger computed.</p>}
      {!answer.differences.some((one) => one.variable === "input") && <p><a href={link("timeline", [], timelineOf(records[0]))}>All runs of this input over time</a></p>}
    </section>
  );
}

function timelineOf(record: { state: string; value?: Schemas["RecordAnswer"] }): Record<string, string> {
  const hashes = record.value?.hashes as Record<string, string | null | undefined> | undefined;
  const input = hashes?.seedless_input_hash ?? hashes?.input_hash;
  return input ? { input } : {};
}

function Row({ title, a, b, differs = false }: { title: preact.ComponentChildren; a: preact.ComponentChildren; b: preact.ComponentChildren; differs?: boolean }) {
  return <tr class={differs ? "differs-row" : ""}><th scope="row">{differs && <span aria-label="differs" role="img">≠ </span>}{title}</th><td data-title="First">{a}</td><td data-title="Second">{b}</td></tr>;
}

function MemberValue({ value, digest }: { value: unknown; digest: string | null }) {
  if (value !== undefined) return <Line text={typeof value === "string" ? value : JSON.stringify(value)} most={200} />;
  return digest === null ? <span class="quiet">none</span> : <span class="quiet" title={digest}>another value ({valueWords(digest)})</span>;
}
