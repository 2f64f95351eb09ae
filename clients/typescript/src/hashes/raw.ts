import { must } from "../verify/errors.js";
import { type Members, Numeral, type Value, canonical, parseJSON } from "../verify/json.js";

/** JSON text that is sent and hashed exactly as it is written. Use it where JavaScript loses something: `1.0`, `1e5`, long integers. */
export class RawJSON {
  constructor(readonly text: string) {
    parseJSON(text); // refuses what the ledger would refuse
  }
}

/** Marks JSON text that is to be sent as it is: `{payload: raw('{"weight":1.0}')}`. */
export function raw(text: string): RawJSON {
  return new RawJSON(text);
}

/** Marks a number that is a double even if it has no fraction: `float(1)` is sent as `1.0`. JavaScript writes it as `1`, which is another value for the ledger. */
export function float(value: number): RawJSON {
  must(Number.isFinite(value), "malformed", `${value} is not a number of JSON`);
  return new RawJSON(canonical(new Numeral(value.toExponential())));
}

/** Something that can be written as JSON: what JSON.stringify accepts, and also bigint, RawJSON, and parsed values. */
export type Jsonable = unknown;

/** Writes a value as JSON.stringify does, but keeps RawJSON, bigint, and parsed values exact. It returns undefined where JSON.stringify does. */
export function toJSON(value: Jsonable): string | undefined {
  return write(value, "");
}

function write(given: Jsonable, key: string): string | undefined {
  let value = given;
  if (value !== null && typeof value === "object" && "toJSON" in value && typeof value.toJSON === "function") {
    value = (value as { toJSON(key: string): unknown }).toJSON(key);
  }
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (value instanceof RawJSON) return value.text;
  if (value instanceof Numeral) return value.token;
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return JSON.stringify(value);
  if (Array.isArray(value)) return "[" + value.map((v, i) => write(v, String(i)) ?? "null").join(",") + "]";
  const parts: string[] = [];
  for (const [name, member] of value instanceof Map ? value : Object.entries(value)) {
    const text = write(member, String(name));
    if (text !== undefined) parts.push(JSON.stringify(String(name)) + ":" + text);
  }
  return "{" + parts.join(",") + "}";
}

/** Returns the value that the ledger reads if this is sent. A string is a JSON string; use raw for JSON text. */
export function valueOf(value: Jsonable): Value {
  const text = toJSON(value);
  must(text !== undefined, "malformed", "the value cannot be written as JSON");
  return parseJSON(text);
}

/** Returns an object that the ledger reads if this is sent. */
export function membersOf(value: Jsonable, what: string): Members {
  const members = value instanceof Map ? (value as Members) : valueOf(value);
  must(members instanceof Map, "malformed", `${what} is not an object`);
  return members;
}
