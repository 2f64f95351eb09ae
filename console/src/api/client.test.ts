import assert from "node:assert/strict";
import { test } from "node:test";
import { parseAnswer } from "./client.ts";

test("a long integer keeps its digits", () => {
  assert.deepEqual(parseAnswer('{"seed":18446744073709551615,"list":[1.5,-9007199254740993,9007199254740991],"text":"1234567890123456"}'),
    { seed: "18446744073709551615", list: [1.5, "-9007199254740993", 9007199254740991], text: "1234567890123456" });
  assert.deepEqual(parseAnswer('{"seed":42}'), { seed: 42 });
});
