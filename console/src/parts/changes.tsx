// What the pages about changes share: their navigation, names of runs, shares, and a pair of texts that opens.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import { get, type Schemas } from "../api/client.ts";
import { useLoad } from "../api/load.ts";
import { longer, plain, valueWords } from "../changes.ts";
import { asOf, useLink, usePlace } from "../router.ts";
import { number, percent, similarityMeans, similarityWords, variableName } from "../words.ts";
import { Named, RecordLink, type Name } from "./name.tsx";
import { RecordsCompared } from "./sidebyside.tsx";
import { Line } from "./text.tsx";

type RunNames = Schemas["RunNames"];

const views = [
  { page: "changed", title: "Compare two values" },
  { page: "unstable", title: "Unstable inputs" },
  { page: "compare", title: "Compare two records" },
];

/** ChangesNav leads to the views of what changed. */
export function ChangesNav() {
  const place = usePlace(), link = useLink();
  return (
    <ul class="choice views" aria-label="Views of what changed">
      {views.map((view) => <li key={view.page}><a href={link(view.page)} aria-current={view.page === place.page || (view.page === "unstable" && place.page === "timeline") ? "page" : undefined}>{view.title}</a></li>)}
    </ul>
  );
}

/** Meter draws a share as a bar beside its number. */
export function Meter({ share, title }: { share: number; title: string }) {
  return <span class="meter" title={title}><span class="meter-track" aria-hidden="true"><span style={{ width: `${Math.round(share * 100)}%` }} /></span> <span class="number">{percent(share)}</span></span>;
}

/** Opens is a row that shows more when it is opened. Its content is built only then. */
export function Opens({ title, open: first = false, children }: { title: ComponentChildren; open?: boolean; children: () => ComponentChildren }) {
  const [open, setOpen] = useState(first);
  return (
    <details class="opens" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && <div class="opened">{children()}</div>}
    </details>
  );
}

/** Pair is two runs with the same input, and how similar their texts are. */
export function Pair({ ledger, a, b, name, change, left, right, open }: { ledger: string; a: number; b: number; name: Name | undefined; change: Schemas["TextChange"] | undefined; left: ComponentChildren; right: ComponentChildren; open?: boolean }) {
  const link = useLink();
  return (
    <Opens open={open ?? false} title={<>
      <span class="opens-name"><Named name={name} hash={undefined} /></span>
      {change?.similarity !== undefined && <Meter share={change.similarity} title={`${similarityWords(change.similarity)}. ${similarityMeans}`} />}
      {change?.length_change !== undefined && <span class="quiet small opens-length">{longer(change.length_change)}</span>}
    </>}>
      {() => (
        <>
          <RecordsCompared ledger={ledger} from={a} to={b} a={<>{left} · <RecordLink seq={a} /></>} b={<>{right} · <RecordLink seq={b} /></>} />
          <p class="small"><a href={link("compare", [], { a, b })}>All differences between the two runs</a></p>
        </>
      )}
    </Opens>
  );
}

const Prompts = createContext(new Map() as ReadonlyMap<string, Name>);

/** PromptNames gives the pages inside it the labels of the prompts that most runs have. Without it, a prompt has its first words. */
export function PromptNames({ children }: { children: ComponentChildren }) {
  const place = usePlace(), size = asOf(place);
  const loading = useLoad(`${place.ledger} prompts ${size ?? ""}`, async (signal) => {
    const list = await get("/v1/ledgers/{ledger}/drift/groups", { ledger: place.ledger }, { by: "system_prompt_hash", names: true, limit: 100, ...(size === undefined ? { sort: "runs" } : { as_of: size }) }, signal);
    return new Map(list.rows.flatMap((row): [string, Name][] => (row.name?.label === undefined ? [] : [[row.value, row.name]])));
  });
  return <Prompts.Provider value={loading.state === "ready" ? loading.value : none}>{children}</Prompts.Provider>;
}

const none: ReadonlyMap<string, Name> = new Map();

/** nameOf is the name that a run gives to a value of a variable, if it gives one. */
function nameOf(variable: string, names: RunNames | undefined): Name | undefined {
  if (variable === "system_prompt") return names?.system_prompt;
  if (variable === "input") return names?.input;
  return undefined;
}

/** Value shows the value of a variable: the name of a text, or the value itself. */
export function Value({ variable, value, names, most = 90 }: { variable: string; value: unknown; names?: RunNames | undefined; most?: number }) {
  const prompts = useContext(Prompts);
  const label = variable === "system_prompt" ? prompts.get(plain(value))?.label : undefined;
  const name = label === undefined ? nameOf(variable, names) : { label };
  if (value === null || value === undefined) return <span class="quiet">none</span>;
  if (name) return <Named name={name} hash={plain(value)} most={most} />;
  if (variable === "evidence" && typeof value === "number") return <RecordLink seq={value} kind="citation_set" />;
  return <span title={plain(value).length < 200 ? plain(value) : undefined}><Line text={valueWords(value)} most={most} /></span>;
}

/** Differs lists what differs between two runs in one line each: "prompt: … → …". */
export function Differs({ differences, a, b }: { differences: Schemas["Differences"]; a: RunNames | undefined; b: RunNames | undefined }) {
  return (
    <ul class="differs">
      {differences.map((one) => (
        <li key={one.variable}>
          <span class="quiet">{variableName(one.variable)}</span> <Value variable={one.variable} value={one.a} names={a} /> <span aria-label="then" role="img">→</span> <Value variable={one.variable} value={one.b} names={b} />
          {one.members && one.members.length > 0 && <span class="quiet small"> (in {one.members.slice(0, 6).map((member, i) => <span key={member.pointer}>{i > 0 && ", "}<code><Line text={member.pointer} most={60} /></code></span>)}{one.members.length > 6 && ` and ${number(one.members.length - 6)} more`})</span>}
        </li>
      ))}
    </ul>
  );
}
