// Two texts beside each other, with the words that differ.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { content, get } from "../api/client.ts";
import { lanes, useLoad } from "../api/load.ts";
import { change, number, percent } from "../words.ts";
import { difference, side, type Edit, type Part } from "./diff.ts";
import { Loads } from "./states.tsx";
import { Raw, Text } from "./text.tsx";

const drawn = 40_000; // UTF-16 units of one side that are drawn at first

function Parts({ parts, which }: { parts: readonly Part[]; which: "a" | "b" }) {
  const Changed = which === "a" ? "del" : "ins";
  return (
    <>
      {parts.map((part, i) => {
        if (part.kind === "gap") return <span key={i} class="gap">… {number(part.words)} words the same …</span>;
        return part.kind === "same" ? <Raw key={i} text={part.text} /> : <Changed key={i}><Raw text={part.text} /></Changed>;
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
        {gaps && <button type="button" class="link" onClick={() => setWhole(!whole)}>{whole ? "Show only what differs" : "Show the whole texts"}</button>}
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
      <p class="note">The texts are too long to be compared word by word here.</p>
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
            {percent(diff.similarity)} of the words stay; the second text has {number(diff.b.words)} words after {number(diff.a.words)}
            {diff.length_change !== undefined && diff.length_change !== 0 && <> ({change(diff.length_change)})</>}.
            {diff.bounded && " The texts are long, so the comparison is approximate."}
          </p>
          <Compared edits={diff.edits} a={props.a} b={props.b} />
        </>
      )}
    </Loads>
  );
}

/** RecordText loads a text of a record by its name, and shows it. */
export function RecordText({ ledger, seq, name, label }: { ledger: string; seq: number; name: string; label: string }) {
  const loading = useLoad(`${ledger} ${seq} ${name}`, (signal) => lane(() => content(ledger, seq, name, signal)));
  return <Loads of={loading} lines={4}>{(kept) => <Text text={kept.text} valid={kept.valid} label={label} />}</Loads>;
}
