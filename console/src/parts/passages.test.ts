import assert from "node:assert/strict";
import { test } from "node:test";
import { grouped, likeness, replacement, superseded, type Cited } from "./passages.ts";

const cited = (chunk_hash: string, text: string | null, section: string | null = null, source_id = "s"): Cited => ({ chunk_hash, source_id, section, text });

test("likeness is the share of common words", () => {
  assert.equal(likeness("The tide is high.", "the TIDE is high"), 1);
  assert.equal(likeness("a b", "c d"), 0);
  assert.equal(likeness("", ""), 1);
  assert.equal(likeness("a b c", "a b d"), 0.5);
});

test("the replacement is of the same source and section, is new, and is the most like", () => {
  const old = cited("1", "The ferry leaves at nine.");
  const later = [cited("2", "Dogs are welcome."), cited("3", "The ferry leaves at ten."), cited("4", "The ferry leaves at nine!", "timetable"), cited("5", "The ferry leaves at nine.", null, "t"), cited("6", "The ferry leaves at nine, always.")];
  assert.equal(replacement(old, later, [old, cited("6", "x")])?.chunk_hash, "3");
  assert.equal(replacement(old, [old], [old]), undefined);
  assert.equal(replacement(cited("1", null, ""), [cited("2", null)], [])?.chunk_hash, "2");
});

test("groups keep the order of their first rows", () => {
  assert.deepEqual(grouped([3, 1, 3, 2, 1], (n) => n), [[3, 3], [1, 1], [2]]);
});

test("the reason is a sentence", () => {
  assert.match(superseded("registered"), /registered again/);
  assert.equal(superseded("other"), "other");
});
