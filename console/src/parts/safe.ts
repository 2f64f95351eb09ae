// Texts of strangers, in pieces that are safe to show. A text can contain characters that turn
// the text around it, hide a part of it, or imitate a line break. The console shows these by
// name, as marks.

/** Piece is a part of a text: to be shown as it is, or the name of a character that is not shown. */
export type Piece = { text: string } | { mark: string; name: string };

const names: Record<number, string> = {
  0x00ad: "soft hyphen", 0x061c: "Arabic letter mark", 0x180e: "Mongolian vowel separator", 0x200b: "zero-width space", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x2028: "line separator", 0x2029: "paragraph separator", 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding",
  0x202c: "end of direction", 0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2060: "word joiner", 0x2066: "left-to-right isolate",
  0x2067: "right-to-left isolate", 0x2068: "first-strong isolate", 0x2069: "end of isolate", 0xfeff: "byte order mark",
};

// Controls except tab and line feed; invisible format characters; tags; interlinear marks. The
// joiners U+200C and U+200D are left: scripts and emoji need them.
// eslint-disable-next-line no-control-regex -- these are the characters to find
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

function marked(character: string): Piece {
  const code = character.codePointAt(0) ?? 0;
  const mark = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return { mark, name: names[code] ?? "invisible character" };
}

/** pieces splits a text at the characters that must not act. */
export function pieces(text: string): Piece[] {
  const all: Piece[] = [];
  const unix = text.includes("\r") ? text.replaceAll("\r\n", "\n") : text;
  let at = 0;
  for (const found of unix.matchAll(hidden)) {
    if (found.index > at) all.push({ text: unix.slice(at, found.index) });
    all.push(marked(found[0]));
    at = found.index + found[0].length;
  }
  if (at < unix.length) all.push({ text: unix.slice(at) });
  return all;
}

/** cut returns the first `most` UTF-16 units of a text, but never half a character. */
export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}

/** firstLine returns the beginning of a text on one line, for a name or a preview. It ends with "…" if more follows. */
export function firstLine(text: string, most: number): string {
  const start = cut(text, most * 4).replace(/\s+/gu, " ").trim();
  const line = cut(start, most);
  if (line === start && text.length <= most * 4) return line;
  const word = line.lastIndexOf(" ");
  return `${word > most / 2 ? line.slice(0, word) : line}…`;
}

/** wholeWords leaves out a word at the end of a text, unless it is long. */
function wholeWords(text: string): string {
  const word = /\s\S{0,40}$/u.exec(text);
  return word ? text.slice(0, word.index) : text;
}

/** visibleLines returns the part of a text that a folded view shows: at most `lines` lines and `most` units. */
export function visibleLines(text: string, lines: number, most: number): string {
  const start = text.length <= most ? text : wholeWords(cut(text, most));
  let at = -1;
  for (let n = 0; n < lines; n++) {
    at = start.indexOf("\n", at + 1);
    if (at < 0) return start;
  }
  return start.slice(0, at);
}

/** plainly returns a text for a place that takes no marks, such as a title: characters that must not act become U+FFFD. */
export function plainly(text: string): string {
  return pieces(text).map((piece) => ("text" in piece ? piece.text : "\ufffd")).join("");
}
