import assert from "node:assert/strict";
import { test } from "node:test";
import { stackedSums } from "./stack.ts";

test("stacked series add up from the last to the first", () => {
  assert.deepEqual(stackedSums([[1, 2], [10, null], [100, 200]]), [[111, 202], [110, 200], [100, 200]]);
  assert.deepEqual(stackedSums([]), []);
});
