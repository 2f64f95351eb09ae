import { Raw } from "./text.tsx";

/** Sentence shows what the server says in words. Names of strangers can be part of it. */
export function Sentence({ text }: { text: string }) {
  return <span class="sentence"><Raw text={text} /></span>;
}
