import assert from "node:assert/strict";
import { test } from "node:test";
import { segments, treeOf, treeRows } from "./tree.ts";

const path = (...route: string[]) => ({ route });
const drawn = (...rows: { route: string[] }[]) => treeRows(treeOf(rows)).map((one) => `${" ".repeat(one.depth)}${one.names.join(">")}${one.row ? "*" : ""}`);

test("paths that begin alike share their beginning", () => {
  assert.deepEqual(drawn(path("Start", "Left"), path("Start", "Right"), path("Start")), ["Start*", " Left*", " Right*"]);
});

test("passages without a choice are joined", () => {
  assert.deepEqual(drawn(path("Start", "A", "B", "C"), path("Start", "A", "B", "D")), ["Start>A>B", " C*", " D*"]);
  assert.deepEqual(drawn(path("a", "b")), ["a>b*"]);
});

test("children are in the order of their numbers and names", () => {
  assert.deepEqual(drawn(path("Day 10"), path("Day 9"), path("apple")), ["apple*", "Day 9*", "Day 10*"]);
});

test("names of built-in members are names like others, and depth has no limit", () => {
  assert.deepEqual(drawn(path("__proto__", "constructor")), ["__proto__>constructor*"]);
  const deep = Array.from({ length: 20_000 }, (_, i) => `p${i}`);
  const rows = Array.from({ length: 3 }, (_, i) => path(...deep.slice(0, 20_000 - i)));
  assert.equal(treeRows(treeOf(rows)).length, 3);
  assert.deepEqual(drawn(), []);
});

test("segments fill the drawing, and nothing else", () => {
  const list = segments([{ name: "new", value: 3 }, { name: "gone", value: 0 }, { name: "modified", value: 1 }], 8);
  assert.deepEqual(list, [{ name: "new", value: 3, from: 0, share: 3 / 8 }, { name: "modified", value: 1, from: 3 / 8, share: 1 / 8 }]);
  assert.deepEqual(segments([{ name: "new", value: 0 }], 0), []);
});
