import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, firstLine, pieces, plainly, visibleLines } from "./safe.ts";

test("characters that act on the text around them become marks", () => {
  assert.deepEqual(pieces("a\u202eb\u2066c"), [{ text: "a" }, { mark: "U+202E", name: "right-to-left override" }, { text: "b" }, { mark: "U+2066", name: "left-to-right isolate" }, { text: "c" }]);
  for (const character of ["\u0000", "\u001b", "\u200b", "\u200e", "\u200f", "\u061c", "\u2028", "\ufeff", "\u009f", "\u{e0041}", "\u2069"]) {
    assert.equal(pieces(`x${character}y`).length, 3, character.codePointAt(0)?.toString(16));
  }
});

test("ordinary text of all scripts stays as it is", () => {
  for (const text of ["Grüße\n\tan alle", "العربية", "עברית", "👩‍👩‍👧", "می‌خواهم", "日本語", "<script>alert(1)</script>"]) {
    assert.deepEqual(pieces(text), [{ text }]);
  }
  assert.deepEqual(pieces("a\r\nb"), [{ text: "a\nb" }]);
  assert.deepEqual(pieces(""), []);
});

test("a text of a megabyte is split at once", () => {
  assert.equal(pieces("\u202ex".repeat(10_000)).length, 20_000);
  assert.equal(pieces("x".repeat(1 << 20)).length, 1);
});

test("a cut never halves a character", () => {
  assert.equal(cut("a😀b", 2), "a");
  assert.equal(cut("a😀b", 3), "a😀");
  assert.equal(cut("ab", 9), "ab");
});

test("the first line of a text is its name", () => {
  assert.equal(firstLine("  What are\n\nthe names?  ", 40), "What are the names?");
  assert.equal(firstLine("one two three four", 12), "one two…");
  assert.equal(firstLine("x".repeat(1 << 20), 10), `${"x".repeat(10)}…`);
});

test("a folded text shows whole lines", () => {
  assert.equal(visibleLines("a\nb\nc", 2, 100), "a\nb");
  assert.equal(visibleLines("a\nb", 2, 100), "a\nb");
  assert.equal(visibleLines("abcdef", 2, 3), "abc");
});

test("a folded text ends with a whole word", () => {
  assert.equal(visibleLines("one two three", 9, 10), "one two");
  assert.equal(visibleLines("one two three", 9, 13), "one two three");
  assert.equal(visibleLines("x".repeat(100), 9, 60), "x".repeat(60));
  assert.equal(visibleLines(`a ${"x".repeat(100)}`, 9, 60), `a ${"x".repeat(58)}`);
});

test("a text for a title has no character that acts", () => {
  assert.equal(plainly("a\u202eb\u0000c"), "a\ufffdb\ufffdc");
  assert.equal(plainly("plain"), "plain");
});
