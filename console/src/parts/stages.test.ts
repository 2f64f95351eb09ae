import assert from "node:assert/strict";
import { test } from "node:test";
import { claimWords, contradictions, dimensionName, firstDiverging, inputsOf, outcome, pairs, rejection, runCause, scoredIn, stageText, stageWords, verdict } from "./stages.ts";

const run = (...stages: [string, string][]) => stages.map(([stage, hash]) => ({ stage, hash }));
const shown = (list: ReturnType<typeof pairs>) => list.map((one) => `${one.stage}${one.nth > 1 ? `#${one.nth}` : ""} ${one.state}`);

test("stages with the same name stand beside each other", () => {
  const list = pairs(run(["question", "1"], ["retrieval", "2"], ["answer", "3"]), run(["question", "1"], ["retrieval", "4"], ["answer", "3"]));
  assert.deepEqual(shown(list), ["question same", "retrieval differs", "answer same"]);
  assert.equal(firstDiverging(list), 1);
  assert.equal(firstDiverging(pairs(run(["a", "1"]), run(["a", "1"]))), -1);
});

test("a stage that only one run has keeps its place", () => {
  const rejected = run(["question", "1"], ["preflight", "2"], ["reject", "3"]);
  const answered = run(["question", "1"], ["preflight", "2"], ["retrieval", "4"], ["answer", "5"]);
  assert.deepEqual(shown(pairs(rejected, answered)), ["question same", "preflight same", "reject only-a", "retrieval only-b", "answer only-b"]);
  assert.deepEqual(shown(pairs(run(["q", "1"], ["z", "2"]), run(["q", "1"], ["x", "3"], ["z", "2"]))), ["q same", "x only-b", "z same"]);
  assert.deepEqual(shown(pairs([], run(["q", "1"]))), ["q only-b"]);
});

test("every stage appears once, in whatever order the runs have them", () => {
  assert.deepEqual(shown(pairs(run(["a", "1"], ["b", "2"]), run(["b", "2"], ["a", "1"]))).sort(), ["a same", "b same"]);
  assert.deepEqual(shown(pairs(run(["a", "1"], ["a", "2"]), run(["a", "1"], ["a", "3"]))), ["a same", "a#2 differs"]);
});

test("names are those of people, and unknown ones are shown as they are", () => {
  assert.equal(stageWords("parsed_claim_lattice").title, "Claims");
  assert.equal(stageWords("my_stage").title, "my stage");
  assert.equal(dimensionName("model_profile_hash"), "the model");
  assert.equal(runCause("model_profile_hash", ["model_profile_hash"]), "Only the model was different.");
  assert.match(runCause("confounded", ["source_root", "model_profile_hash"]), /: the sources and the model\.$/);
  assert.match(runCause("unknown", []), /not known/);
});

test("a verdict says how a run ended", () => {
  assert.equal(verdict({ shape: "reject", audit_mode: "UNGROUNDED" }), "rejected before it was answered");
  assert.equal(verdict({ shape: "pointer", failure_stage: null, audit_mode: "STRICT", n_quotes: 0, n_verified: 0 }), "answered; audit mode STRICT");
  assert.equal(verdict({ shape: "pointer", failure_stage: "context", audit_mode: "HYBRID", n_quotes: 2, n_verified: 0 }), "failed at context; audit mode HYBRID, 0 of 2 quotes verified");
  assert.deepEqual([{ shape: "reject" }, { failure_stage: "context" }, { failure_stage: null }, {}].map(outcome), ["rejected", "failed at context", "answered", "answered"]);
  assert.equal(verdict({ failure_stage: "unknown" }), "the record does not say how it ended");
});

test("what a run claims about its answer is told as a claim", () => {
  assert.deepEqual(claimWords({ audit_mode: "STRICT", n_quotes: 0, n_verified: 0 }), [
    "The service states the audit mode STRICT: nothing in the answer failed the audit.", "It counted no quotes in the answer, so there was none to verify.", "The ledger keeps these statements but does not audit answers."]);
  assert.match(claimWords({ audit_mode: "HYBRID", n_quotes: 3, n_verified: 0 }).join(" "), /It counted 3 quotes in the answer and verified none\./);
  assert.match(claimWords({ audit_mode: "OWN" })[0] ?? "", /audit mode OWN\.$/);
  assert.deepEqual(claimWords({ shape: "reject", audit_mode: "UNGROUNDED" }), []);
  assert.deepEqual(contradictions(["root", "verdict:strict_without_verified_quotes", "verdict:own"]), ["The audit mode is STRICT, but none of the quotes was verified.", "They break the rule own."]);
});

test("inputs are shown as far as they have the right form", () => {
  const inputs = inputsOf('{"answer_text":"Yes.","parsed_lattice":[{"claim_text":"It is so.","evidence_ids":["E1","E2"]},7,{}],"n_quotes":2,"audit_mode":"HYBRID","sources":[{"document_root":"ab","score":0.5},{"document_root":"cd"},{"score":1},null]}');
  assert.equal(stageText("answer", inputs), "Yes.");
  assert.equal(stageText("parsed_claim_lattice", inputs), "It is so.  [E1, E2]\n(no text)  []");
  assert.equal(stageText("verify", inputs), "audit mode: HYBRID\nquotes: 2");
  assert.equal(stageText("render", inputs), undefined);
  assert.equal(stageText("anything", inputs), undefined);
  assert.deepEqual(scoredIn(inputs), [{ root: "ab", score: 0.5 }, { root: "cd", score: undefined }]);
  for (const text of ["", "[]", "null", "7", '{"sources":7,"answer_text":{},"parsed_lattice":{}}']) {
    assert.deepEqual(scoredIn(inputsOf(text)), []);
    assert.equal(stageText("answer", inputsOf(text)), undefined);
    assert.equal(stageText("parsed_claim_lattice", inputsOf(text)), undefined);
    assert.equal(rejection(inputsOf(text)), undefined);
  }
  assert.equal(rejection(inputsOf('{"rejection_reason":"no source"}')), "no source");
});
