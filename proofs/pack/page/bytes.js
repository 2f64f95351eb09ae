// Bytes, texts and hashes.

// Failure is something that does not hold, in words for whoever reads the page.
class Failure extends Error {}

// Unable is something that this browser cannot check.
class Unable extends Error {}

function need(holds, message) {
  if (!holds) throw new Failure(message);
}

function fromBase64(text) {
  let binary;
  try {
    binary = atob(text);
  } catch {
    throw new Failure("bytes are not written in base64");
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function toHex(bytes) {
  let text = "";
  for (const b of bytes) text += b.toString(16).padStart(2, "0");
  return text;
}

function fromHex(text) {
  need(typeof text === "string" && /^[0-9a-f]{64}$/.test(text), "a hash is not 64 hexadecimal digits");
  return Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
}

function join(parts) {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function same(a, b) {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", join(parts)));
}

// wtf8 is UTF-8, in which a surrogate that stands alone takes three bytes.
function wtf8(text) {
  const encoder = new TextEncoder();
  if (!/\p{Surrogate}/u.test(text)) return encoder.encode(text);
  const parts = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    const alone = code >= 0xd800 && code <= 0xdfff;
    parts.push(alone ? [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)] : encoder.encode(character));
  }
  return join(parts);
}

// utf8Text is the text of bytes; null if they are no valid UTF-8.
function utf8Text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

async function textHash(text) {
  return toHex(await sha256(wtf8(text)));
}
