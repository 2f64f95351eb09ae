// What a search found: its name for people, and the page that shows it.
import type { Link } from "../router.ts";
import { variableName } from "../words.ts";

export interface Hit {
  seq: number;
  type: string;
  value: string;
}

const titles: Record<string, string> = {
  event: "Event", event_hash: "Event", run_id: "Run", subject: "Subject", project: "Story", source_id: "Source", producer: "Producer", model: "Model", path_id: "Path of a story",
  evidence_id: "Evidence", content_fingerprint: "Text of a story", topic: "Topic of a note", label: "Label", input: "Input", input_hash: "Input", system_prompt_hash: "Prompt",
  output_hash: "Output", question_hash: "Question", chunk_hash: "Passage", ipc_id: "Generation", root: "Answer run", document_root: "Passage", cache_key: "Cache key",
};

/** titleOf says what kind of thing a hit is. */
export function titleOf(type: string): string {
  const known = titles[type];
  if (known !== undefined) return known;
  if (type.startsWith("label:")) return `Label ${type.slice(6)}`;
  if (type.startsWith("stage:")) return `Stage ${type.slice(6)}`;
  const words = variableName(type).replace(/ hash$/, "");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const groups: { title: string; types: string[] }[] = [
  { title: "Prompts, inputs, and questions", types: ["input", "input_hash", "system_prompt_hash", "question_hash"] },
  { title: "Runs and events", types: ["event", "event_hash", "run_id", "ipc_id", "root"] },
  { title: "Names", types: ["project", "subject", "source_id", "model", "producer", "topic", "label"] },
];

const others = "Hashes and values";

/** groupOf is the heading under which a hit is listed. */
export function groupOf(type: string): string {
  if (type.startsWith("label:")) return "Names";
  return groups.find((group) => group.types.includes(type))?.title ?? others;
}

export const groupOrder = [...groups.map((group) => group.title), others];

/** isHash reports whether the values of a type are digests, which are shown in short. */
export function isHash(type: string): boolean {
  return /_hash$|_root$|^root$|_key$|^ipc_id|^input$|^stage:/.test(type);
}

/** namesItself reports whether a value needs no example of a record that has it. */
export function namesItself(type: string): boolean {
  return type === "source_id" || type === "subject" || type === "project";
}

/** target is the address of the page that shows a hit. */
export function target(link: Link, hit: Hit): string {
  switch (hit.type) {
    case "event":
    case "event_hash":
    case "label":
      return link("record", [hit.seq]);
    case "run_id":
      return link("run", [hit.value]);
    case "project":
      return link("stories", [hit.value]);
    case "subject":
      return link("subject", [hit.value]);
    case "source_id":
      return link("source", [hit.value]);
    case "chunk_hash":
      return link("passage", [hit.value]);
    case "question_hash":
      return link("runs", [hit.value]);
    case "input":
      return link("timeline", [], { input: hit.value });
    case "ipc_id":
    case "root":
      return link("record", [hit.seq]);
  }
  return link("records", [], { [hit.type]: hit.value });
}
