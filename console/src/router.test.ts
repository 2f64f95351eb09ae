import assert from "node:assert/strict";
import { test } from "node:test";
import { asOf, href, parsePlace, withQuery } from "./router.ts";

test("an address survives parsing", () => {
  const cases: [string, string, string[], Record<string, string>][] = [
    ["default", "", [], {}],
    ["default", "record", ["41"], { as_of: "500" }],
    ["default", "run", ["eval/7 ü"], { a: "x&y=z", b: "#?" }],
    ["-", "sign-in", [], {}],
  ];
  for (const [ledger, page, rest, query] of cases) {
    const place = parsePlace(href(ledger, page, rest, query));
    assert.deepEqual([place.ledger, place.page, place.rest, Object.fromEntries(place.query)], [ledger, page, rest, query]);
  }
});

test("a broken address is still an address", () => {
  assert.deepEqual(parsePlace("#/%E0%A4%A/%"), { ledger: "%E0%A4%A", page: "%", rest: [], query: new URLSearchParams() });
  assert.equal(parsePlace("").ledger, "");
});

test("only a positive number fixes a view", () => {
  for (const [text, want] of [["500", 500], ["0", undefined], ["-1", undefined], ["1e9", undefined], ["", undefined]] as const) {
    assert.equal(asOf(parsePlace(`#/default?as_of=${text}`)), want);
  }
});

test("a replaced value leaves the others", () => {
  const place = parsePlace("#/default/effect?a=1&b=2&as_of=9");
  assert.equal(withQuery(place, { as_of: undefined, b: 3 }), "#/default/effect?a=1&b=3");
});
