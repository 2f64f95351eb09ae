// Events, and the parts of them that receipts repeat (spec: Event body; Receipts).

import { type Bytes, count, utf8Text } from "./bytes.js";
import { must } from "./errors.js";
import { type Members, Numeral, type Value, canonical, hasLoneSurrogate, parseJSON } from "./json.js";

/** The body of an event. */
export interface Event {
  readonly ledger: string;
  readonly seq: number;
  readonly kind: string;
  readonly time: string;
  readonly record: Members;
  readonly checks: Members;
  /** All members. */
  readonly members: Members;
}

/** Reads an event from its body, which must be canonical JSON. */
export function parseEvent(body: Uint8Array): Event {
  const text = utf8Text(body);
  must(text !== null, "malformed", "the event is not valid UTF-8");
  const members = parseJSON(text);
  must(members instanceof Map, "malformed", "the event is not an object");
  must(!hasLoneSurrogate(members), "malformed", "the event has a lone surrogate");
  must(canonical(members) === text, "malformed", "the event is not in its canonical form");
  return eventOf(members);
}

function eventOf(members: Members): Event {
  const of = (name: string): Members => {
    const value = members.get(name) ?? new Map<string, Value>();
    must(value instanceof Map, "malformed", `${name} of the event is not an object`);
    return value;
  };
  return {
    ledger: textMember(members, "ledger", "the event"), seq: countMember(members, "seq", "the event"), kind: textMember(members, "kind", "the event"),
    time: textMember(members, "time", "the event"), record: of("record"), checks: of("checks"), members,
  };
}

export function textMember(members: Members, name: string, what: string): string {
  const value = members.get(name);
  must(typeof value === "string", "malformed", `${what} has no text ${name}`);
  return value;
}

export function countMember(members: Members, name: string, what: string): number {
  const value = members.get(name);
  must(value instanceof Numeral, "malformed", `${what} has no count ${name}`);
  return count(value.token, `${name} of ${what}`);
}

export function objectMember(members: Members, name: string, what: string): Members {
  const value = members.get(name);
  must(value instanceof Map, "malformed", `${what} has no object ${name}`);
  return value;
}

/** Splits an entry into the previous event's hash and the event's body. */
export function splitEntry(entry: Bytes): { previous: Bytes; body: Bytes } {
  must(entry.length <= 65535, "malformed", `an entry has ${entry.length} bytes, but at most 65535 are possible`);
  must(entry.length > 32, "malformed", "the entry holds no event");
  return { previous: entry.slice(0, 32), body: entry.slice(32) };
}

/** Returns the members of an event that its receipt repeats. An absent member is undefined. */
export function repeated(event: Event): Record<"hashes" | "checks" | "shape" | "failure_stage" | "incomplete", Value | undefined> {
  return {
    hashes: event.record.get("hashes") ?? new Map<string, Value>(),
    checks: event.checks,
    shape: event.record.get("shape"),
    failure_stage: event.record.get("failure_stage"),
    incomplete: incomplete(event),
  };
}

/** Returns what an IPC record lacks, or undefined if it lacks nothing. */
function incomplete({ kind, record }: Event): Value | undefined {
  if (kind !== "ipc_record") return undefined;
  const hashes = record.get("hashes");
  const given = (value: Value | undefined): boolean => value !== undefined && value !== null;
  const hash = (name: string): Value | undefined => (hashes instanceof Map ? hashes.get(name) : undefined);
  const parts: [string, Value | undefined][] = [
    ["input", hash("input_hash")], ["system_prompt", hash("system_prompt_hash")], ["output", hash("output_hash")],
    ["temperature", record.get("temperature")], ["max_tokens", record.get("max_tokens")], ["seed", record.get("seed")],
  ];
  const lacking = parts.filter(([, value]) => !given(value)).map(([name]) => name);
  return lacking.length > 0 ? lacking : undefined;
}
