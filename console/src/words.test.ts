import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { causeOf, causeOrder, change, count, listed, percent } from "./words.ts";

test("numbers read well", () => {
  assert.equal(count(1, "record"), "1 record");
  assert.equal(count(4831, "record"), "4,831 records");
  assert.equal(change(-0.25), "−25 %");
  assert.equal(change(1.5), "2.5 times as long");
  assert.equal(change(0.001), "as long");
  assert.equal(listed(["a", "b", "c"]), "a, b, and c");
  assert.equal(listed(["a", "b"]), "a and b");
});

test("a share is never rounded to none or all", () => {
  for (const [share, want] of [[0, "0 %"], [0.0001, "< 0.1 %"], [0.034, "3.4 %"], [0.5, "50 %"], [0.984, "98 %"], [0.996, "99.6 %"], [0.9999, "> 99.9 %"], [1, "100 %"]] as const) {
    assert.equal(percent(share), want);
  }
});

test("every cause of the contract has words and a colour of its own", () => {
  const contract = readFileSync("../openapi.yaml", "utf8"), style = readFileSync("src/base.css", "utf8");
  const listedCauses = /\n {4}DriftCause:[\s\S]*?\n {6}enum:\n((?: {8}- \w+\n)+)/.exec(contract)?.[1]?.match(/\w+/g);
  assert.ok(listedCauses && listedCauses.length > 10, "the contract lists causes");
  assert.deepEqual([...listedCauses].sort(), [...causeOrder].sort());
  for (const cause of causeOrder) {
    assert.ok(causeOf(cause).means);
    assert.ok(style.includes(`.cause-${cause} {`), cause);
  }
});
