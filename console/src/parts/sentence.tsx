import { Raw } from "./text.tsx";

/** Sentence shows a sentence of which names from records are a part: their characters are made harmless. */
export function Sentence({ text }: { text: string }) {
  return <span class="sentence"><Raw text={text} /></span>;
}
