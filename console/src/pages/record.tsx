import { content, get, type Schemas } from "../api/client.ts";
import { useGet, useLoad, usePages } from "../api/load.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { AsOf, CauseChip, CheckMark, StateChip } from "../parts/marks.tsx";
import { RecordLink } from "../parts/name.tsx";
import { DownloadReceipt } from "../parts/receipt.tsx";
import { Sentence } from "../parts/sentence.tsx";
import { RecordText } from "../parts/sidebyside.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Listed, Table } from "../parts/table.tsx";
import { Line, Raw, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { bytes, kindName, listed, number, shortHash, variableName, verdictOf } from "../words.ts";

type Row = Schemas["RecordRow"];

/** Members of an event's record that the page shows. Each kind has some of them. */
interface Members {
  content?: Record<string, { sha256: string; size: number }>;
  model?: string;
  temperature?: number;
  max_tokens?: number;
  seed?: number;
  environment?: Record<string, string>;
  labels?: Record<string, string>;
  run_id?: string;
  timestamp?: string;
  subject?: string;
  project?: string;
  build?: string;
  branch?: string;
  base?: string;
  route?: string[];
  audit_mode?: string;
  failure_stage?: string | null;
  shape?: string;
  verifier_method?: string;
  citations?: { chunk_hash: string; source_id: string; weight: number; section: string | null }[];
  producer?: { id: string; seq: number };
  [name: string]: unknown;
}

/** RecordPage shows one event of the log: texts, conditions, checks, what became of it, and its proof. */
export function RecordPage() {
  const place = usePlace();
  const seq = Number(place.rest[0]);
  if (!Number.isSafeInteger(seq) || seq < 0) return <Empty title="This is not the number of an event">Numbers begin at 0. Use the search above to find a record.</Empty>;
  return <RecordView key={seq} seq={seq} />;
}

function RecordView({ seq }: { seq: number }) {
  const place = usePlace();
  const loading = useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq }, { derive: true, as_of: asOf(place) });
  return (
    <Loads of={loading} lines={10}>
      {(row) => {
        const members = row.event.record as Members;
        return (
          <>
            <Heading row={row} members={members} />
            <Change row={row} ledger={place.ledger} />
            <Texts row={row} members={members} ledger={place.ledger} />
            <Conditions row={row} members={members} />
            <Checks row={row} />
            <About seq={seq} ledger={place.ledger} />
            {members.run_id !== undefined && <SameRun ledger={place.ledger} run={members.run_id} seq={seq} />}
            <Proof row={row} ledger={place.ledger} />
            <AsOf size={row.as_of} />
          </>
        );
      }}
    </Loads>
  );
}

function Heading({ row, members }: { row: Row; members: Members }) {
  return (
    <header class="page-head">
      <p class="eyebrow">{kindName(row.kind)} {number(row.seq)} <StateChip state={row.state} /></p>
      <h1>{members.route ? <Raw text={members.route.join(" → ")} /> : members.run_id ? <Raw text={members.run_id} /> : members.subject ? <Raw text={members.subject} /> : `Event ${number(row.seq)}`}</h1>
      <p class="quiet">
        {members.model && <><Raw text={members.model} /> · </>}recorded <Time at={row.time} exact />
        {members.timestamp && <> · made <Time at={members.timestamp} exact /></>}
      </p>
    </header>
  );
}

/** Change says what caused the change from the run before, if there is one. */
function Change({ row, ledger }: { row: Row; ledger: string }) {
  const link = useLink();
  if (row.drift) {
    const input = row.hashes.seedless_input_hash ?? row.hashes.input_hash;
    return (
      <section>
        <h2>What changed</h2>
        <Attribution ledger={ledger} a={row.drift.against} b={row.seq} />
        {input && <p><a href={link("timeline", [], { input })}>All runs of this input over time</a></p>}
      </section>
    );
  }
  if (!row.incomplete || row.incomplete.length === 0) return null;
  return <section><h2>What changed</h2><p>This record lacks {listed(row.incomplete.map((part) => variableName(part)))}{row.incomplete.includes("output") || row.incomplete.includes("input") ? ", so it cannot be compared with others." : "."}</p></section>;
}

/** Attribution is one sentence that says why an output changed, with links to the comparison. */
export function Attribution({ ledger, a, b }: { ledger: string; a: number; b: number }) {
  const place = usePlace(), link = useLink();
  const loading = useGet("/v1/ledgers/{ledger}/drift/attribution", { ledger }, { a, b, as_of: asOf(place) });
  return <Loads of={loading} lines={1}>{(answer) => <p><CauseChip cause={answer.cause} /> <Sentence text={answer.says} /> <a href={link("compare", [], { a, b })}>Compare the two</a></p>}</Loads>;
}

const titles: Record<string, string> = {
  output: "Output", system_prompt: "System prompt", payload: "Input, as it was posted", content: "Passage", passage: "Passage", question: "Question", answer_text: "Answer", rendered_text: "Answer as shown",
  raw_answer_text: "Answer before parsing", messages: "Conversation", usage: "Usage", policy: "Policy", verifier_policy: "Policy of the verifier", preflight_payload: "Preflight",
};

const order = ["question", "instruction", "output", "answer_text", "content", "passage", "system_prompt", "payload"];

/** textNames lists the texts of a record in the order in which a person reads them. */
export function textNames(contents: readonly string[]): string[] {
  const rank = (name: string) => {
    const at = order.indexOf(name);
    return at < 0 ? order.length : at;
  };
  return [...contents].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
}

function Texts({ row, members, ledger }: { row: Row; members: Members; ledger: string }) {
  const all = textNames(Object.keys(members.content ?? {}));
  if (row.redacted_by !== undefined) return <Empty title="The texts of this record were erased"><RecordLink seq={row.redacted_by}>Event {number(row.redacted_by)}</RecordLink> says who erased them and why. The hashes remain.</Empty>;
  const cited = members.citations ?? [];
  return (
    <>
      {all.filter((name) => !name.startsWith("citations/")).map((name) => (
        <section key={name}>
          <h2>{titles[name] ?? name.replaceAll("_", " ")} <span class="quiet small">{bytes(members.content?.[name]?.size ?? 0)}</span></h2>
          {name === "payload" ? <Payload ledger={ledger} seq={row.seq} /> : <RecordText ledger={ledger} seq={row.seq} name={name} label={titles[name] ?? name} />}
        </section>
      ))}
      {cited.length > 0 && <section><h2>What it rests on</h2>
        <ol class="citations">{cited.map((citation, i) => (
          <li key={i}>
            <p class="quiet small"><bdi>{citation.source_id}</bdi>{citation.section && <> · <bdi>{citation.section}</bdi></>} · weight {citation.weight}</p>
            {members.content?.[`citations/${i}/text`] ? <RecordText ledger={ledger} seq={row.seq} name={`citations/${i}/text`} label={`Passage ${i + 1}`} /> : <p class="quiet">The passage itself was not posted.</p>}
          </li>
        ))}</ol></section>}
    </>
  );
}

const questions = ["instruction", "question", "prompt"];

/** Payload shows the instruction of an input first, and the rest folded. */
function Payload({ ledger, seq }: { ledger: string; seq: number }) {
  const loading = useLoad(`${ledger} ${seq} payload`, (signal) => content(ledger, seq, "payload", signal));
  return (
    <Loads of={loading}>
      {(kept) => {
        let instruction: unknown;
        try {
          const payload = JSON.parse(kept.text) as Record<string, unknown>;
          instruction = questions.map((name) => payload[name]).find((value) => typeof value === "string");
        } catch {
          instruction = undefined;
        }
        return (
          <>
            {typeof instruction === "string" && <Text text={instruction} label="Instruction" />}
            <details open={typeof instruction !== "string"}><summary>The whole payload, as JSON</summary><Text text={kept.text} label="Payload" /></details>
          </>
        );
      }}
    </Loads>
  );
}

function Conditions({ row, members }: { row: Row; members: Members }) {
  const link = useLink();
  const rows: [string, unknown][] = [
    ["model", members.model], ["temperature", members.temperature], ["max_tokens", members.max_tokens], ["seed", members.seed],
    ...Object.entries(members.environment ?? {}).map(([name, value]): [string, unknown] => [variableName(name), value]),
    ["subject", members.subject], ["project", members.project], ["build", members.build], ["branch", members.branch], ["base", members.base],
    ["audit mode", members.audit_mode], ["failed at", members.failure_stage], ["shape", members.shape], ["verifier", members.verifier_method],
    ["producer", members.producer && `${members.producer.id}, its number ${members.producer.seq}`], ["written by", row.event.actor],
  ];
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <section>
      <h2>Conditions</h2>
      <dl class="facts">{shown.map(([name, value]) => <div key={name}><dt>{name}</dt><dd><Line text={String(value)} most={200} /></dd></div>)}
        {Object.entries(members.labels ?? {}).map(([name, value]) => <div key={`label ${name}`}><dt>label <bdi>{name}</bdi></dt><dd><a href={link("search", [], { q: value })}><Line text={value} most={200} /></a></dd></div>)}
      </dl>
    </section>
  );
}

function Checks({ row }: { row: Row }) {
  const checks = Object.entries(row.checks);
  const bad = checks.filter(([, check]) => verdictOf(check.result).class === "bad");
  if (checks.length === 0) return null;
  return (
    <section>
      <h2>Checks</h2>
      <p class={bad.length > 0 ? "says-bad" : "says-good"}>{bad.length > 0 ? `${bad.length} of ${checks.length} checks failed: ${listed(bad.map(([name]) => name.replaceAll("_", " ")))}.`
        : checks.some(([, check]) => check.result === "claimed") ? "Nothing is wrong, but some hashes rest on the word of the service alone." : "The ledger computed every hash itself, and nothing is wrong."}</p>
      <details open={bad.length > 0}>
        <summary>{number(checks.length)} checks</summary>
        <ul class="checks">{checks.map(([name, check]) => {
          const verdict = verdictOf(check.result), stated = (row.hashes as Record<string, string | null | undefined>)[name];
          return (
            <li key={name}><CheckMark result={check.result} /> <strong><bdi>{name.replaceAll("_", " ")}</bdi></strong> <span>{verdict.words}</span>
              {check.claimed !== undefined && check.computed !== undefined ? <span class="hashes"><code>claimed {check.claimed}</code><code>computed {check.computed}</code></span> : stated ? <code class="quiet" title={stated}>{shortHash(stated)}</code> : null}
            </li>
          );
        })}</ul>
      </details>
    </section>
  );
}

/** About lists notes on the record, and changes of its state. */
function About({ seq, ledger }: { seq: number; ledger: string }) {
  const place = usePlace();
  const loading = useLoad(`${ledger} about ${seq} ${asOf(place) ?? ""}`, (signal) => get("/v1/ledgers/{ledger}/records", { ledger }, { record_seq: seq, events: true, as_of: asOf(place), limit: 50 }, signal));
  return (
    <Loads of={loading} lines={1}>
      {(list) => list.rows.length === 0 ? null : (
        <section>
          <h2>What was said about it</h2>
          <ul class="plain-list">{list.rows.map((one) => {
            const said = one.event?.record as Members | undefined;
            return <li key={one.seq}><RecordLink seq={one.seq} kind={one.kind} /> <Time at={one.time} />{typeof said?.topic === "string" && <>: <strong><Line text={said.topic} /></strong></>}{typeof said?.text === "string" && <> <Line text={said.text} most={300} /></>}{typeof said?.state === "string" && <> <StateChip state={said.state} /></>}{typeof said?.reason === "string" && <> <Line text={said.reason} most={300} /></>}</li>;
          })}</ul>
        </section>
      )}
    </Loads>
  );
}

function SameRun({ ledger, run, seq }: { ledger: string; run: string; seq: number }) {
  const place = usePlace();
  const pages = usePages("/v1/ledgers/{ledger}/runs/{run_id}", { ledger, run_id: run }, { state: "any", as_of: asOf(place), limit: 50 });
  if (pages.first.state === "ready" && pages.rows.every((row) => row.seq === seq)) return null;
  return (
    <section>
      <h2>Everything of the run <Line text={run} /></h2>
      <Listed of={pages} empty={null}>
        {(rows) => <Table label="Records of the same run" rows={rows} keyOf={(row) => row.seq} columns={[
          { title: "Record", cell: (row) => (row.seq === seq ? <strong>{kindName(row.kind)} {number(row.seq)} (this one)</strong> : <RecordLink seq={row.seq} kind={row.kind} />) },
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
          { title: "State", cell: (row) => row.state ?? "" },
        ]} />}
      </Listed>
    </section>
  );
}

function Proof({ row, ledger }: { row: Row; ledger: string }) {
  const place = usePlace();
  return (
    <section>
      <h2>Proof</h2>
      <p>The receipt proves that this record is in the log, unchanged. <code>colophon verify</code> checks it offline.</p>
      <p><DownloadReceipt ledger={ledger} seq={row.seq} size={asOf(place)} /></p>
      <dl class="facts hashes">
        <div><dt>event hash</dt><dd><code>{row.event_hash}</code></dd></div>
        <div><dt>leaf hash</dt><dd><code>{row.leaf_hash}</code></dd></div>
        {Object.entries(row.hashes).filter(([, value]) => typeof value === "string").map(([name, value]) => <div key={name}><dt>{name.replaceAll("_", " ")}</dt><dd><code>{String(value)}</code></dd></div>)}
      </dl>
    </section>
  );
}
