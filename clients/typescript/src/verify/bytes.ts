import { UnsupportedError, VerificationError, must, shown } from "./errors.js";

export type Bytes = Uint8Array<ArrayBuffer>;

/** Reads standard base64 with padding. Exactly one spelling of each value is accepted. */
export function fromBase64(text: string): Bytes {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    throw new VerificationError("malformed", "bytes are not written in base64");
  }
  must(btoa(binary) === text, "malformed", "bytes are not written in canonical base64");
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  return btoa(binary);
}

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const b of bytes) text += b.toString(16).padStart(2, "0");
  return text;
}

/** Reads a hash: exactly 64 lower-case hexadecimal digits. */
export function fromHex(text: unknown): Bytes {
  must(typeof text === "string" && /^[0-9a-f]{64}$/.test(text), "malformed", "a hash is not 64 lower-case hexadecimal digits");
  return Uint8Array.from({ length: 32 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

export function concat(...parts: ArrayLike<number>[]): Bytes {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Returns WebCrypto. Browsers have it only on pages from https, from localhost, and from files. */
export function subtle(): SubtleCrypto {
  const found = (globalThis as { crypto?: Partial<Crypto> }).crypto?.subtle;
  if (!found) throw new UnsupportedError("this page has no cryptography here (WebCrypto); open it over https, from localhost, or as a file");
  return found;
}

export async function sha256(...parts: ArrayLike<number>[]): Promise<Bytes> {
  return new Uint8Array(await subtle().digest("SHA-256", concat(...parts)));
}

const encoder = new TextEncoder();

/** Encodes a text as UTF-8. A lone surrogate takes three bytes (spec: UTF-8 and WTF-8). */
export function wtf8(text: string): Bytes {
  if (!/\p{Surrogate}/u.test(text)) return encoder.encode(text);
  const parts: ArrayLike<number>[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const lone = code >= 0xd800 && code <= 0xdfff;
    parts.push(lone ? [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)] : encoder.encode(character));
  }
  return concat(...parts);
}

/** Decodes UTF-8, or returns null if the bytes are not valid UTF-8. A byte order mark stays. */
export function utf8Text(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Returns a text, or the text of bytes that must be valid UTF-8. */
export function textOf(input: string | Uint8Array, what: string): string {
  if (typeof input === "string") return input;
  const text = utf8Text(input);
  must(text !== null, "malformed", `${what} is not valid UTF-8`);
  return text;
}

/** Reads a tree size or an index, from 0 to 2^53-1. */
export function count(text: string, what: string): number {
  const n = Number(text);
  must(/^(0|[1-9]\d*)$/.test(text) && Number.isSafeInteger(n), "malformed", `${what} is ${shown(text)}, not a count below 2^53`);
  return n;
}
