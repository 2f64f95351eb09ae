import assert from "node:assert/strict";
import { test } from "node:test";
import { href, type Link } from "../router.ts";
import { groupOf, groupOrder, isHash, target, titleOf } from "./hits.ts";

const link: Link = (page, rest, query) => href("default", page, rest, query);

test("a hit leads to the page that shows it", () => {
  assert.equal(target(link, { type: "event", value: "7", seq: 7 }), "#/default/record/7");
  assert.equal(target(link, { type: "run_id", value: "answer/1", seq: 7 }), "#/default/run/answer%2F1");
  assert.equal(target(link, { type: "source_id", value: "handbook", seq: 7 }), "#/default/source/handbook");
  assert.equal(target(link, { type: "project", value: "a b", seq: 7 }), "#/default/stories/a%20b");
  assert.equal(target(link, { type: "label:config", value: "x=y", seq: 7 }), "#/default/records?label%3Aconfig=x%3Dy");
});

test("every hit has a title and a heading that is shown", () => {
  for (const type of ["event", "input", "label:config", "stage:prompt", "governance_policy_hash", "something_new"]) {
    assert.ok(titleOf(type).length > 0);
    assert.ok(groupOrder.includes(groupOf(type)));
  }
  assert.equal(titleOf("label:config"), "Label config");
  assert.equal(titleOf("stage:prompt"), "Stage prompt");
  assert.equal(titleOf("governance_policy_hash"), "Governance policy");
});

test("digests are told from names", () => {
  assert.ok(isHash("output_hash") && isHash("stage:answer") && isHash("input") && isHash("cache_key"));
  assert.ok(!isHash("run_id") && !isHash("label:config") && !isHash("source_id"));
});
