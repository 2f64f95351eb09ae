// The ledger's JSON (spec: Canonical JSON; Numbers; Refused JSON). JavaScript's own parser does not
// suffice, because it loses the difference between 1 and 1.0, and digits of long integers.

import { wtf8 } from "./bytes.js";
import { must } from "./errors.js";

/** A number as it was written. */
export class Numeral {
  constructor(readonly token: string) {}

  /** Reports whether the number is an integer for the ledger: 1 is, 1.0 is not. */
  get isInteger(): boolean {
    return !/[.eE]/.test(this.token);
  }

  /** Returns an integer in plain decimal, or the shortest digits of a double as CPython prints them. */
  canonical(): string {
    return this.isInteger ? BigInt(this.token).toString() : float(Number(this.token));
  }
}

/** A JSON value. Objects keep their order. */
export type Value = null | boolean | string | Numeral | Value[] | Members;
export type Members = Map<string, Value>;

/** Prints a finite double as CPython's repr(float). */
export function float(value: number): string {
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [, sign = "", first = "", rest = "", exponent] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(value.toExponential()) ?? [];
  const digits = first + rest;
  const point = Number(exponent);
  if (point < -4 || point >= 16) {
    return sign + first + (rest && "." + rest) + "e" + (point < 0 ? "-" : "+") + String(Math.abs(point)).padStart(2, "0");
  }
  if (point < 0) return sign + "0." + "0".repeat(-point - 1) + digits;
  return sign + digits.slice(0, point + 1).padEnd(point + 1, "0") + "." + (digits.slice(point + 1) || "0");
}

const maxDepth = 512; // open brackets
const maxDigits = 4300; // digits of an integer

const constants = new Map<string, Value>([["true", true], ["false", false], ["null", null]]);

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  document(): Value {
    const value = this.value();
    this.space();
    must(this.at === this.text.length, "malformed", "not JSON: there is more after the value");
    return value;
  }

  /** Reads what a sticky pattern matches. */
  private take(pattern: RegExp, what: string): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    must(found, "malformed", `not JSON: ${what} is missing at character ${this.at}`);
    this.at = pattern.lastIndex;
    return found[0];
  }

  private space(): void {
    this.take(/[ \t\n\r]*/y, "space");
  }

  /** Reads a character and the space before it, if it is the next one. */
  private next(character: string): boolean {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  private value(): Value {
    this.space();
    const first = this.text[this.at];
    if (first === '"') return this.string();
    if (first === "{" || first === "[") {
      must(++this.depth <= maxDepth, "malformed", `the JSON has more than ${maxDepth} open brackets`);
      this.at++;
      const value = first === "{" ? this.object() : this.array();
      this.depth--;
      return value;
    }
    const word = this.take(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y, "a value");
    return constants.has(word) ? constants.get(word)! : this.number(new Numeral(word));
  }

  private number(n: Numeral): Numeral {
    if (n.isInteger) {
      must(n.token.replace("-", "").length <= maxDigits, "malformed", `an integer has more than ${maxDigits} digits`);
    } else {
      must(Number.isFinite(Number(n.token)), "malformed", "a number is out of the range of doubles");
    }
    return n;
  }

  private string(): string {
    let end = this.at + 1;
    while (this.text[end] !== '"') {
      must(end < this.text.length, "malformed", "not JSON: the end of a string is missing");
      end += this.text[end] === "\\" ? 2 : 1;
    }
    const token = this.text.slice(this.at, end + 1);
    this.at = end + 1;
    let value: unknown;
    try {
      value = JSON.parse(token);
    } catch {
      // Reported below.
    }
    must(typeof value === "string", "malformed", "not JSON: a string is malformed");
    return value;
  }

  private array(): Value[] {
    const list: Value[] = [];
    if (this.next("]")) return list;
    do list.push(this.value());
    while (this.next(","));
    must(this.next("]"), "malformed", "not JSON: the end of an array is missing");
    return list;
  }

  private object(): Members {
    const members: Members = new Map();
    if (this.next("}")) return members;
    do {
      this.space();
      must(this.text[this.at] === '"', "malformed", "not JSON: a member name is missing");
      const name = this.string();
      must(!members.has(name), "malformed", `not JSON: an object has two members ${JSON.stringify(name)}`);
      must(this.next(":"), "malformed", "not JSON: a colon is missing");
      members.set(name, this.value());
    } while (this.next(","));
    must(this.next("}"), "malformed", "not JSON: the end of an object is missing");
    return members;
  }
}

/** Parses JSON. It refuses what the ledger refuses (spec: Refused JSON). */
export function parseJSON(text: string): Value {
  return new Parser(text).document();
}

const shortEscapes: Record<string, string> = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Writes a string as canonical JSON does. */
export function quoted(text: string): string {
  const escape = (c: string): string => shortEscapes[c] ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  // eslint-disable-next-line no-control-regex -- control characters are what this escapes
  return '"' + text.replace(/["\\\u0000-\u001f]/g, escape) + '"';
}

/** Compares texts by their code points. `<` compares UTF-16 units, which is another order. */
export function byCodePoint(a: string, b: string): number {
  for (let i = 0; ; ) {
    const x = a.codePointAt(i) ?? -1;
    const y = b.codePointAt(i) ?? -1;
    if (x !== y || x === -1) return x - y;
    i += x > 0xffff ? 2 : 1;
  }
}

/** The separators of canonical JSON. */
export interface Form {
  readonly comma: string;
  readonly colon: string;
}
export const compact: Form = { comma: ",", colon: ":" };
export const spaced: Form = { comma: ", ", colon: ": " };

/** Returns canonical JSON (spec: Canonical JSON). */
export function canonical(value: Value | undefined, form: Form = compact): string {
  if (value instanceof Numeral) return value.canonical();
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return "[" + value.map((v) => canonical(v, form)).join(form.comma) + "]";
  if (value instanceof Map) {
    const names = [...value.keys()].sort(byCodePoint);
    return "{" + names.map((name) => quoted(name) + form.colon + canonical(value.get(name), form)).join(form.comma) + "}";
  }
  return String(value);
}

/** Returns the bytes of canonical JSON in WTF-8. */
export function canonicalBytes(value: Value, form: Form = compact): Uint8Array<ArrayBuffer> {
  return wtf8(canonical(value, form));
}

/** Reports whether a string in the value, or a member name, has a lone surrogate. */
export function hasLoneSurrogate(value: Value): boolean {
  if (typeof value === "string") return /\p{Surrogate}/u.test(value);
  if (Array.isArray(value)) return value.some(hasLoneSurrogate);
  return value instanceof Map && [...value].some(([name, v]) => hasLoneSurrogate(name) || hasLoneSurrogate(v));
}

/** Returns the value with U+FFFD in place of each lone surrogate, also in member names. */
export function wellFormed(value: Value): Value {
  if (typeof value === "string") return value.replace(/\p{Surrogate}/gu, "\ufffd");
  if (Array.isArray(value)) return value.map(wellFormed);
  return value instanceof Map ? new Map([...value].map(([name, v]) => [wellFormed(name) as string, wellFormed(v)])) : value;
}
