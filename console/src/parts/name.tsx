// Names: what a person calls a record, a prompt, or an input.
import type { ComponentChildren } from "preact";
import { useLink } from "../router.ts";
import { kindName, number, shortHash } from "../words.ts";
import { Line } from "./text.tsx";

/** Name is what the server knows of a text: the value of a label, and its first words. */
export interface Name {
  label?: string | undefined;
  words?: string | undefined;
  cut?: boolean | undefined;
}

/** Named shows a name: label and first words. If there is neither, it shows the beginning of the hash. */
export function Named({ name, hash, most = 90 }: { name: Name | undefined; hash?: string | null | undefined; most?: number }) {
  const words = name?.words;
  if (name?.label !== undefined && words !== undefined) return <><strong><Line text={name.label} most={40} /></strong> <span class="words"><Line text={words + (name.cut ? "…" : "")} most={most} /></span></>;
  if (name?.label !== undefined) return <strong><Line text={name.label} most={most} /></strong>;
  if (words !== undefined) return words === "" ? <span class="quiet">(empty)</span> : <Line text={words + (name?.cut ? "…" : "")} most={most} />;
  if (hash) return <code class="quiet" title={hash}>{shortHash(hash)}</code>;
  return <span class="quiet">without a name</span>;
}

/** plainName is a name for places that take only a text, such as an option of a menu. */
export function plainName(name: Name | undefined, value: string): string {
  const words = name?.words === undefined ? "" : name.words + (name.cut ? "…" : "");
  if (name?.label !== undefined) return words ? `${name.label} — ${words}` : name.label;
  return words || shortHash(value);
}

/** RecordLink leads to a record by its name. */
export function RecordLink({ seq, kind, name, children }: { seq: number; kind?: string | undefined; name?: Name | undefined; children?: ComponentChildren }) {
  const link = useLink();
  const said = children ?? (name?.label !== undefined || name?.words !== undefined ? <Named name={name} /> : `${kind ? kindName(kind) : "record"} ${number(seq)}`);
  return <a href={link("record", [seq])}>{said}</a>;
}
