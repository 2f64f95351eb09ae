import { content, get, type Schemas } from "../api/client.ts";
import { useGet, useLoad, usePages } from "../api/load.ts";
import { attributionWords } from "../changes.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { Differs, PromptNames } from "../parts/changes.tsx";
import { AsOf, CauseChip, CheckMark, StateChip } from "../parts/marks.tsx";
import { RecordLink } from "../parts/name.tsx";
import { DownloadReceipt } from "../parts/receipt.tsx";
import { Sentence } from "../parts/sentence.tsx";
import { RecordText } from "../parts/sidebyside.tsx";
import { Empty, Loads } from "../parts/states.tsx";
import { Table } from "../parts/table.tsx";
import { Line, Raw, Text } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
import { VerifyHere } from "../parts/verifyhere.tsx";
import { useMay } from "../parts/may.ts";
import { bytes, kindName, listed, number, shortHash, variableName, verdictOf } from "../words.ts";

type Row = Schemas["RecordAnswer"];

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
  if (!Number.isSafeInteger(seq) || seq < 0) return <Empty page title="This is not the number of an event">Numbers begin at 0. Use the search above to find a record.</Empty>;
  return <RecordView key={seq} seq={seq} />;
}

function RecordView({ seq }: { seq: number }) {
  const place = usePlace();
  const loading = useGet("/v1/ledgers/{ledger}/records/{seq}", { ledger: place.ledger, seq }, { derive: true, as_of: asOf(place) });
  return (
    <Loads page of={loading} lines={10}>
      {(row) => {
        const members = row.event.record as Members;
        return (
          <>
            <Heading row={row} members={members} />
            <div class="record">
              <div class="record-texts">
                <Texts row={row} members={members} ledger={place.ledger} />
                <PromptNames><Change row={row} ledger={place.ledger} /></PromptNames>
              </div>
              <aside class="record-margin" aria-label="Conditions and checks">
                <Conditions row={row} members={members} />
                <Checks row={row} />
              </aside>
            </div>
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
  const view = useView(row, members);
  return (
    <header class="page-head">
      <p class="eyebrow">{kindName(row.kind)} {number(row.seq)} <StateChip state={row.state} /></p>
      <h1>{members.route ? <Raw text={members.route.join(" → ")} /> : members.run_id ? <Raw text={members.run_id} /> : members.subject ? <Raw text={members.subject} /> : `Event ${number(row.seq)}`}</h1>
      <p class="quiet">
        {members.model && <><Raw text={members.model} /> · </>}recorded <Time at={row.time} exact />
        {members.timestamp && <> · generated <Time at={members.timestamp} exact /></>}
      </p>
      {view && <p><a href={view.href}>{view.title}</a></p>}
    </header>
  );
}

/** useView returns the page that shows more than the texts of a record, if its kind has one. */
function useView(row: Row, members: Members): { href: string; title: string } | undefined {
  const link = useLink();
  if (row.kind === "run_dag") return { href: link("run-dag", [row.seq]), title: "Its stages, one by one" };
  if (row.kind === "citation_set") return { href: link("citations", [row.seq]), title: "What it rests on, and what has changed since" };
  if (row.kind === "path_fingerprint" && members.project !== undefined) return { href: link("stories", [members.project]), title: "The story, from build to build" };
  return undefined;
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
  const loading = useGet("/v1/ledgers/{ledger}/drift/attribution", { ledger }, { a, b, names: true, as_of: asOf(place) });
  return (
    <Loads of={loading} lines={1}>
      {(answer) => (
        <>
          <p><CauseChip cause={answer.cause} /> <Sentence text={attributionWords(answer)} /> <a href={link("compare", [], { a, b })}>Compare the two</a></p>
          {answer.differences.length > 0 && <Differs differences={answer.differences} a={answer.a.names} b={answer.b.names} />}
        </>
      )}
    </Loads>
  );
}

const titles: Record<string, string> = {
  output: "Output", system_prompt: "System prompt", payload: "Input", content: "Passage", passage: "Passage", question: "Question", answer_text: "Answer", rendered_text: "Answer as shown",
  raw_answer_text: "Answer before parsing", messages: "Conversation", usage: "Usage", policy: "Policy", verifier_policy: "Policy of the verifier", preflight_payload: "Preflight", dag: "Stages", inputs: "Inputs of the run",
};

const order = ["question", "instruction", "output", "answer_text", "inputs", "content", "passage", "payload", "system_prompt"];

/** textNames lists the texts of a record in the order in which a person reads them. */
export function textNames(contents: readonly string[]): string[] {
  const rank = (name: string) => {
    const at = order.indexOf(name);
    return at < 0 ? order.length : at;
  };
  return [...contents].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
}

function Texts({ row, members, ledger }: { row: Row; members: Members; ledger: string }) {
  const link = useLink();
  const all = textNames(Object.keys(members.content ?? {})), may = useMay("content");
  if (row.redacted_by !== undefined) return <Empty title="The texts of this record were erased"><RecordLink seq={row.redacted_by}>Event {number(row.redacted_by)}</RecordLink> says who erased them and why. The hashes remain.</Empty>;
  const cited = members.citations ?? [];
  if (!may && all.length > 0) {
    return (
      <Empty title="You may not read the texts">
        There {all.length === 1 ? "is one" : `are ${number(all.length)}`}: {listed(all.slice(0, 5).map((name) => (titles[name] ?? name).toLowerCase()))}{all.length > 5 && " and more"}. Reading them needs the scope <code>content</code>: ask
        the operator for it. Everything else on this page can be read and verified without it.
      </Empty>
    );
  }
  return (
    <>
      {all.filter((name) => !name.startsWith("citations/")).map((name) => (
        <section key={name}>
          <h2>{titles[name] ?? name.replaceAll("_", " ")} <span class="quiet small">{bytes(members.content?.[name]?.size ?? 0)}</span></h2>
          {structured.has(name) ? <Structured ledger={ledger} seq={row.seq} name={name} label={titles[name] ?? name} /> : name === "payload" ? <Payload ledger={ledger} seq={row.seq} /> : <RecordText ledger={ledger} seq={row.seq} name={name} label={titles[name] ?? name} />}
        </section>
      ))}
      {cited.length > 0 && <section><h2>What it rests on</h2>
        <ol class="citations">{cited.map((citation, i) => (
          <li key={i}>
            <p class="quiet small"><a href={link("source", [citation.source_id])}><Line text={citation.source_id} most={80} /></a>{citation.section && <> · <Line text={citation.section} most={120} /></>} · weight {citation.weight}</p>
            {members.content?.[`citations/${i}/text`] ? <RecordText ledger={ledger} seq={row.seq} name={`citations/${i}/text`} label={`Passage ${i + 1}`} /> : <p class="quiet">The passage itself was not posted.</p>}
          </li>
        ))}</ol></section>}
    </>
  );
}

/** Contents that are JSON. Texts inside them come first, and the JSON is folded. */
const structured = new Set(["dag", "inputs", "policy", "verifier_policy", "messages", "usage", "preflight_payload", "preflight", "environment"]);
const inner: [name: string, title: string][] = [["rendered_text", "Answer as shown"], ["answer_text", "Answer"], ["raw_answer_text", "Answer before parsing"]];

/** Structured shows the texts inside a JSON value, and the value folded. */
function Structured({ ledger, seq, name, label }: { ledger: string; seq: number; name: string; label: string }) {
  const loading = useLoad(`${ledger} ${seq} ${name}`, (signal) => content(ledger, seq, name, signal));
  return (
    <Loads of={loading}>
      {(kept) => {
        let values: Record<string, unknown> = {};
        try {
          values = Object(JSON.parse(kept.text)) as Record<string, unknown>;
        } catch {
          // It is shown as a text.
        }
        const texts = inner.filter(([member], i) => typeof values[member] === "string" && !inner.slice(0, i).some(([earlier]) => values[earlier] === values[member]));
        return (
          <>
            {texts.map(([member, title]) => <div key={member}><h3>{title}</h3><Text text={String(values[member])} label={title} /></div>)}
            <details><summary>{texts.length > 0 ? "Everything, as JSON" : "As JSON"}</summary><Text text={kept.text} valid={kept.valid} label={label} /></details>
          </>
        );
      }}
    </Loads>
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
  const claimed = checks.some(([, check]) => check.result === "claimed");
  if (checks.length === 0) return null;
  return (
    <section>
      <h2>Checks</h2>
      <p class={bad.length > 0 ? "says-bad" : claimed ? "says-wait" : "says-good"}>{bad.length > 0 ? `${bad.length} of ${checks.length} checks failed: ${listed(bad.map(([name]) => name.replaceAll("_", " ")))}.`
        : claimed ? "No check failed, but the ledger could not check some of the hashes that the service claimed." : "The ledger computed every hash itself, and no check failed."}</p>
      <details open={bad.length > 0}>
        <summary>{number(checks.length)} checks</summary>
        <ul class="checks">{checks.map(([name, check]) => {
          const verdict = verdictOf(check.result), stated = (row.hashes as Record<string, string | null | undefined>)[name];
          return (
            <li key={name}><CheckMark result={check.result} /> <strong><bdi>{name.replaceAll("_", " ")}</bdi></strong> <span>{verdict.words}</span>{" "}
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
          <h2>Notes and changes of state</h2>
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
  const place = usePlace(), link = useLink();
  const pages = usePages("/v1/ledgers/{ledger}/runs/{run_id}", { ledger, run_id: run }, { state: "any", as_of: asOf(place), limit: 50 });
  if (pages.first.state === "ready" && pages.rows.every((row) => row.seq === seq)) return null;
  return (
    <section>
      <h2>All records of the run <a href={link("run", [run])}><Line text={run} /></a></h2>
      <Loads of={pages.first}>
        {() => <Table label="Records of the same run" rows={pages.rows} keyOf={(row) => row.seq} columns={[
          { title: "Record", cell: (row) => (row.seq === seq ? <strong>{kindName(row.kind)} {number(row.seq)} (this one)</strong> : <RecordLink seq={row.seq} kind={row.kind} />) },
          { title: "Recorded", cell: (row) => <Time at={row.time} /> },
          { title: "State", cell: (row) => row.state ?? "" },
        ]} />}
      </Loads>
      {pages.more && <p><button type="button" onClick={pages.more}>Show more</button></p>}
    </section>
  );
}

function Proof({ row, ledger }: { row: Row; ledger: string }) {
  const place = usePlace();
  return (
    <section class="proof">
      <h2>Proof</h2>
      <VerifyHere ledger={ledger} row={row} />
      <p><DownloadReceipt ledger={ledger} seq={row.seq} size={asOf(place)} /> <span class="quiet small"><code>colophon verify</code> checks this file offline.</span></p>
      <details>
        <summary>All hashes</summary>
        <dl class="facts hashes">
          <div><dt>event hash</dt><dd><code>{row.event_hash}</code></dd></div>
          <div><dt>leaf hash</dt><dd><code>{row.leaf_hash}</code></dd></div>
          {Object.entries(row.hashes).filter(([, value]) => typeof value === "string").map(([name, value]) => <div key={name}><dt>{name.replaceAll("_", " ")}</dt><dd><code>{String(value)}</code></dd></div>)}
        </dl>
      </details>
    </section>
  );
}
