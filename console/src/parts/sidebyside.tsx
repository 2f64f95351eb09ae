// Two texts beside each other, with the words that differ.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { content, get } from "../api/client.ts";
import { lanes, useLoad } from "../api/load.ts";
import { longer } from "../changes.ts";
import { count, number, percent, similarityMeans } from "../words.ts";
import { difference, side, type Edit, type Part } from "./diff.ts";
import { Loads } from "./states.tsx";
import { Raw, Text } from "./text.tsx";

const drawn = 40_000; // UTF-16 units of one side that are drawn at first

/** visibleSpace writes white space with signs, so that a change of white space alone can be seen. */
function visibleSpace(text: string): string {
  return text.replaceAll(" ", "·").replaceAll("\t", "⇥\t").replaceAll("\n", "↵\n");
}

function Parts({ parts, which }: { parts: readonly Part[]; which: "a" | "b" }) {
  const Changed = which === "a" ? "del" : "ins";
  return (
    <>
      {parts.map((part, i) => {
        if (part.kind === "gap") return <span key={i} class="gap">… {count(part.words, "unchanged word")} …</span>;
        return part.kind === "same" ? <Raw key={i} text={part.text} /> : <Changed key={i}><Raw text={part.text.trim() === "" ? visibleSpace(part.text) : part.text} /></Changed>;
      })}
    </>
  );
}

function limited(parts: readonly Part[], most: number): { parts: Part[]; all: boolean } {
  const kept: Part[] = [];
  let left = most;
  for (const part of parts) {
    if (left <= 0) return { parts: kept, all: false };
    kept.push(part.kind === "gap" ? part : { ...part, text: part.text.slice(0, left) });
    left -= part.kind === "gap" ? 0 : part.text.length;
  }
  return { parts: kept, all: left >= 0 };
}

/** Compared shows the two sides of a difference. */
export function Compared({ edits, a, b }: { edits: readonly Edit[]; a: ComponentChildren; b: ComponentChildren }) {
  const [whole, setWhole] = useState(false);
  const [most, setMost] = useState(drawn);
  const left = useMemo(() => side(edits, "a", whole), [edits, whole]);
  const right = useMemo(() => side(edits, "b", whole), [edits, whole]);
  const shownLeft = limited(left, most), shownRight = limited(right, most);
  const gaps = whole || left.some((part) => part.kind === "gap");
  if (!edits.some((edit) => edit.op !== "equal")) return <p class="note">The two texts are the same.</p>;
  return (
    <div class="compared">
      <div class="sides">
        <figure><figcaption>{a}</figcaption><blockquote><Parts parts={shownLeft.parts} which="a" /></blockquote></figure>
        <figure><figcaption>{b}</figcaption><blockquote><Parts parts={shownRight.parts} which="b" /></blockquote></figure>
      </div>
      <p class="fold">
        {gaps && <button type="button" class="link" onClick={() => setWhole(!whole)}>{whole ? "Show only the differences" : "Show the whole texts"}</button>}
        {!(shownLeft.all && shownRight.all) && <button type="button" class="link" onClick={() => setMost(most * 2)}>Show more</button>}
      </p>
    </div>
  );
}

/** TextsCompared compares two texts in the page. */
export function TextsCompared(props: { before: string; after: string; a: ComponentChildren; b: ComponentChildren }) {
  const edits = useMemo(() => difference(props.before, props.after), [props.before, props.after]);
  if (edits) return <Compared edits={edits} a={props.a} b={props.b} />;
  return (
    <div class="compared">
      <p class="note">The texts are too long to be compared word by word on this page.</p>
      <div class="sides">
        <figure><figcaption>{props.a}</figcaption><Text text={props.before} label="The first text" /></figure>
        <figure><figcaption>{props.b}</figcaption><Text text={props.after} label="The second text" /></figure>
      </div>
    </div>
  );
}

const lane = lanes(2);

/** RecordsCompared shows how a text changed from one record to another, as the server compares them. */
export function RecordsCompared(props: { ledger: string; from: number; to: number; of?: string; a: ComponentChildren; b: ComponentChildren }) {
  const { ledger, from, to, of = "output" } = props;
  const loading = useLoad(`${ledger} ${from} ${to} ${of}`, (signal) => lane(() => get("/v1/ledgers/{ledger}/diff", { ledger }, { a: from, b: to, of }, signal)));
  return (
    <Loads of={loading}>
      {(diff) => (
        <>
          <p class="quiet small">
            <span title={similarityMeans}>Word similarity {percent(diff.similarity)}</span>; from {count(diff.a.words, "word")} to {number(diff.b.words)}
            {diff.length_change !== undefined && diff.length_change !== 0 && <> ({longer(diff.length_change)})</>}.
            {diff.bounded && " The texts are too long to be compared completely, so their similarity may be higher."}
          </p>
          {diff.a.sha256 !== diff.b.sha256 && !diff.edits.some((edit) => edit.op !== "equal")
            ? <SpaceCompared ledger={ledger} from={from} to={to} of={of} a={props.a} b={props.b} />
            : <Compared edits={diff.edits} a={props.a} b={props.b} />}
        </>
      )}
    </Loads>
  );
}

/** What a comparison calls a text, and the name of the content that it is. */
const contents: Record<string, string> = { prompt: "system_prompt", passage: "content" };

/** SpaceCompared shows two texts that differ, although the server found no different words: it does not compare white space. */
function SpaceCompared(props: { ledger: string; from: number; to: number; of: string; a: ComponentChildren; b: ComponentChildren }) {
  const { ledger, from, to, of } = props, [open, setOpen] = useState(false);
  return (
    <>
      <p class="note">The two texts differ only in white space or invisible characters. Their words are the same.</p>
      <details class="small" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Show where they differ</summary>
        {open && <SpaceTexts ledger={ledger} from={from} to={to} name={contents[of] ?? of} a={props.a} b={props.b} />}
      </details>
    </>
  );
}

function SpaceTexts(props: { ledger: string; from: number; to: number; name: string; a: ComponentChildren; b: ComponentChildren }) {
  const { ledger, from, to, name } = props;
  const loading = useLoad(`${ledger} ${from} ${to} ${name} texts`, (signal) => lane(() => Promise.all([from, to].map((seq) => content(ledger, seq, name, signal)))));
  return <Loads of={loading} lines={4}>{([before, after]) => before && after && <TextsCompared before={before.text} after={after.text} a={props.a} b={props.b} />}</Loads>;
}

/** RecordText loads a text of a record by its name, and shows it. */
export function RecordText({ ledger, seq, name, label }: { ledger: string; seq: number; name: string; label: string }) {
  const loading = useLoad(`${ledger} ${seq} ${name}`, (signal) => lane(() => content(ledger, seq, name, signal)));
  return <Loads of={loading} lines={4}>{(kept) => <Text text={kept.text} valid={kept.valid} label={label} />}</Loads>;
}
