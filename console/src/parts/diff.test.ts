import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, longest, side, type Edit } from "./diff.ts";

const textOf = (edits: readonly Edit[], without: Edit["op"]) => edits.filter((edit) => edit.op !== without).map((edit) => edit.text).join("");

test("the parts make up both texts", () => {
  const pairs = [["The cat sat.", "The dog sat down."], ["", "new"], ["old", ""], ["a  b\n\nc", "a b\nc"], ["ein Größenwahn", "ein größerer Wahn"], ["😀 x", "😁 x"]] as const;
  for (const [a, b] of pairs) {
    const edits = difference(a, b);
    assert.ok(edits);
    assert.equal(textOf(edits, "insert"), a);
    assert.equal(textOf(edits, "delete"), b);
  }
});

test("equal texts have no changes, and texts that are too long are not compared", () => {
  assert.deepEqual(difference("x", "x"), [{ op: "equal", text: "x" }]);
  assert.deepEqual(difference("", ""), []);
  assert.equal(difference("x".repeat(longest), "y"), undefined);
});

test("a side shows its own changes, and long equal stretches as gaps", () => {
  const same = "word ".repeat(400);
  const edits: Edit[] = [{ op: "delete", text: "old " }, { op: "insert", text: "new " }, { op: "equal", text: same }, { op: "insert", text: "end" }];
  const a = side(edits, "a"), b = side(edits, "b");
  assert.deepEqual(a[0], { kind: "changed", text: "old " });
  assert.deepEqual(b.at(-1), { kind: "changed", text: "end" });
  assert.equal(a.filter((part) => part.kind === "changed").length, 1);
  const gap = a.find((part) => part.kind === "gap");
  assert.ok(gap && gap.words > 300);
  assert.equal(side(edits, "a", true).some((part) => part.kind === "gap"), false);
});
