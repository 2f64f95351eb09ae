// The ledger's canonical JSON: members by code point, integers of any size, doubles as
// CPython prints them. Objects are Maps, numbers are Numerals.

class Numeral {
  constructor(token) {
    this.token = token;
  }

  // canonical is an integer in plain decimal, or the shortest digits of a double.
  canonical() {
    if (!/[.eE]/.test(this.token)) return BigInt(this.token).toString();
    const value = Number(this.token);
    need(Number.isFinite(value), "a number is out of range");
    if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
    const [, sign, first, rest, exponent] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(value.toExponential());
    const digits = first + (rest ?? ""), point = Number(exponent);
    if (point < -4 || point >= 16) {
      return sign + first + (rest ? "." + rest : "") + "e" + (point < 0 ? "-" : "+") + String(Math.abs(point)).padStart(2, "0");
    }
    if (point < 0) return sign + "0." + "0".repeat(-point - 1) + digits;
    return sign + digits.slice(0, point + 1).padEnd(point + 1, "0") + "." + (digits.slice(point + 1) || "0");
  }
}

const constants = new Map([["true", true], ["false", false], ["null", null]]);

class Parser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.depth = 0;
  }

  document() {
    const value = this.value();
    this.space();
    need(this.at === this.text.length, "there is more behind the JSON");
    return value;
  }

  // take reads what a sticky pattern matches.
  take(pattern, what) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    need(found, "not JSON: " + what + " is missing");
    this.at = pattern.lastIndex;
    return found[0];
  }

  space() {
    this.take(/[ \t\n\r]*/y, "space");
  }

  // next reads a character and the space around it, if it is that one.
  next(character) {
    this.space();
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  value() {
    this.space();
    const first = this.text[this.at];
    if (first === '"') return this.string();
    if (first === "{" || first === "[") {
      need(++this.depth <= 512, "the JSON is too deep");
      this.at++;
      const value = first === "{" ? this.object() : this.array();
      this.depth--;
      return value;
    }
    const word = this.take(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y, "a value");
    need(!/^-?\d{4301}/.test(word), "an integer is too long");
    return constants.has(word) ? constants.get(word) : new Numeral(word);
  }

  string() {
    let end = this.at + 1;
    while (this.text[end] !== '"') {
      need(end < this.text.length, "not JSON: the end of a string is missing");
      end += this.text[end] === "\\" ? 2 : 1;
    }
    const token = this.text.slice(this.at, end + 1);
    this.at = end + 1;
    try {
      return JSON.parse(token);
    } catch {
      throw new Failure("not JSON: a string is malformed");
    }
  }

  array() {
    const list = [];
    if (this.next("]")) return list;
    do list.push(this.value());
    while (this.next(","));
    need(this.next("]"), "not JSON: the end of an array is missing");
    return list;
  }

  object() {
    const members = new Map();
    if (this.next("}")) return members;
    do {
      this.space();
      need(this.text[this.at] === '"', "not JSON: a name is missing");
      const name = this.string();
      need(!members.has(name), "a name stands twice in an object");
      need(this.next(":"), "not JSON: a colon is missing");
      members.set(name, this.value());
    } while (this.next(","));
    need(this.next("}"), "not JSON: the end of an object is missing");
    return members;
  }
}

function parseJSON(text) {
  return new Parser(text).document();
}

const shortEscapes = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function quoted(text) {
  const escape = (c) => shortEscapes[c] ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  return '"' + text.replace(/["\\\u0000-\u001f]/g, escape) + '"';
}

// byCodePoint orders texts by their code points, which UTF-16 does not.
function byCodePoint(a, b) {
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  const unpaired = /[\udc00-\udfff]/;
  if (i > 0 && (unpaired.test(a[i] ?? "") || unpaired.test(b[i] ?? "")) && /[\ud800-\udbff]/.test(a[i - 1])) i--;
  return (a.codePointAt(i) ?? -1) - (b.codePointAt(i) ?? -1);
}

const compact = { comma: ",", colon: ":" }, spaced = { comma: ", ", colon: ": " };

function canonical(value, form) {
  if (value instanceof Numeral) return value.canonical();
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return "[" + value.map((v) => canonical(v, form)).join(form.comma) + "]";
  if (value instanceof Map) {
    const names = [...value.keys()].sort(byCodePoint);
    return "{" + names.map((name) => quoted(name) + form.colon + canonical(value.get(name), form)).join(form.comma) + "}";
  }
  return String(value);
}
