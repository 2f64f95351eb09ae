import assert from "node:assert/strict";
import { test } from "node:test";
import { attributionWords, effectWords, ingestRate, lengthBars, letters, longer, rateWords, signers, suggestions, tally, valueWords, variableOf, why } from "./changes.ts";

const run = (cause: string | null, changed: boolean | null) => ({ cause, output_changed: changed });

test("equal outputs have one letter, in the order in which they appear", () => {
  assert.deepEqual(letters(["x", "y", "x", null, "z"]), ["A", "B", "A", "–", "C"]);
  assert.equal(letters(Array.from({ length: 28 }, (_, i) => String(i))).at(-1), "AB");
});

test("only runs whose output changed count for a cause", () => {
  const runs = [run(null, null), run("no_effect", false), run("model", true), run("system_prompt", true), run("system_prompt", true)];
  assert.deepEqual(tally(runs), [["system_prompt", 2], ["model", 1]]);
  assert.equal(why(runs), "The output changed 3 times: 2 with a different prompt and 1 with a different model.");
  assert.equal(why([run("confounded", true), run("confounded", true), run("model", true)]), "The output changed 3 times: 1 with a different model and 2 with several conditions changed.");
  assert.equal(why([run("stochastic", true), run("stochastic", true)]), "The output changed 2 times, always by chance, because nothing else differs.");
  assert.equal(why([run(null, null), run("identical", false)]), "The output never changed from one run to the next.");
  assert.equal(why([run("a_new_cause", true)], true), "Among its first runs, the output changed once, for the cause a new cause.");
});

const figures = { pairs: 805, sample: false, unavailable: 0, similarity: { q1: 0.27, median: 0.34, q3: 0.45 }, length_change: null, similarity_histogram: [], words_histogram: [], most_changed: [] };

test("an effect is told in sentences", () => {
  const text = { ...figures, words_a: { q1: 1, median: 188, q3: 2 }, words_b: { q1: 1, median: 400, q3: 2 } };
  assert.deepEqual(effectWords({ pairs: 805, changed: 802, text }), [
    "802 of 805 outputs changed (99.6 %).", "The median length goes from 188 to 400 words: 2.1 times as long.", "The median word similarity is 34 %."]);
  assert.deepEqual(effectWords({ pairs: 805, changed: 805 }), ["All 805 outputs changed."]);
  assert.deepEqual(effectWords({ pairs: 3, changed: 0, text }), ["None of 3 outputs changed."]);
  assert.deepEqual(effectWords({ pairs: 0, changed: 0 }), []);
  assert.deepEqual(effectWords({ pairs: 1000, changed: 812, sample: true }), ["812 of the newest 1,000 outputs changed (81 %)."]);
  assert.deepEqual(effectWords({ pairs: 1000, changed: 1000, sample: true }), ["All of the newest 1,000 outputs changed."]);
  assert.deepEqual(effectWords({ pairs: 1000, changed: 0, sample: true }), ["None of the newest 1,000 outputs changed."]);
  assert.match(effectWords({ pairs: 2, changed: 1, text: { ...text, words_b: { q1: 1, median: 189, q3: 2 } } })[1] ?? "", /about the same/);
  assert.equal(longer(-0.44), "44 % shorter");
});

test("a comparison is suggested only if a single variable changed", () => {
  const model = { variable: "model", a: "m1", b: "m2" } as const, prompt = { variable: "system_prompt", a: "aa", b: "bb" } as const;
  const timelines = [[{ differences: [] }, { differences: [prompt] }, { differences: [model, prompt] }, { differences: [model] }], [{ differences: [model] }]];
  assert.deepEqual(suggestions(timelines), [{ variable: "model", a: "m1", b: "m2" }, { variable: "system_prompt_hash", a: "aa", b: "bb" }]);
  assert.equal(suggestions(timelines, 1).length, 1);
  assert.deepEqual(suggestions([[{ differences: [{ variable: "temperature", a: 0.7, b: null }] }]]), []);
});

test("an attribution is one sentence without digests", () => {
  const hash = "6ab4e5db1dbdb2963ce7272dbf14ea7033f79907e3b9b09e8932b0f9cbb519cd";
  assert.equal(attributionWords({ cause: "model", output_changed: true, differences: [{ variable: "model", a: "m1", b: "m2" }] }),
    "The output changed because the model changed from m1 to m2, and nothing else did.");
  assert.equal(attributionWords({ cause: "system_prompt", output_changed: true, differences: [{ variable: "system_prompt", a: hash, b: "bb" }] }),
    "The output changed because the prompt changed, and nothing else did.");
  assert.match(attributionWords({ cause: "confounded", output_changed: true, differences: [{ variable: "model", a: "m1", b: "m2" }, { variable: "system_prompt", a: hash, b: "bb" }] }), /so did the model and the prompt\./);
  assert.equal(valueWords(hash), "6ab4e5db1d");
  assert.equal(valueWords(null), "none");
  assert.equal(variableOf("label:config"), "label config");
});

test("other names on a checkpoint than its origin are witnesses", () => {
  const note = "example.org/log\n12\nAAAA=\n\n— example.org/log c2ln\n— witness.example/w c2ln\n— example.org/log c2lnMg==\n";
  assert.deepEqual(signers(note), [{ name: "example.org/log", witness: false }, { name: "witness.example/w", witness: true }]);
});

test("the rate is that of the last minute", () => {
  const heads = [{ at: 0, size: 1 }, { at: 100_000, size: 100 }, { at: 110_000, size: 600 }];
  assert.equal(ingestRate(heads, 110_000), 599 / 60);
  assert.equal(ingestRate(heads, 165_000), 500 / 60);
  assert.equal(ingestRate(heads, 400_000), 0);
  assert.equal(ingestRate(heads.slice(1), 110_000), 50);
  assert.equal(ingestRate([], 0), undefined);
  assert.deepEqual([0, 0.001, 0.5, 1234.5].map(rateWords), ["none", "less than 1 a minute", "30 a minute", "1,235 a second"]);
});

test("the longest hundredth of the outputs is one bar", () => {
  const parts = [100, 60, 38, 1, 0, 1].map((n, i) => ({ from: i * 50, below: i * 50 + 50, a: n, b: n }));
  const { bars, high } = lengthBars(parts);
  assert.deepEqual(bars.map((bar) => [bar.title, bar.value]), [["0 to 49 words", 100], ["50 to 99 words", 60], ["100 to 149 words", 38], ["150 to 299 words", 2]]);
  assert.equal(high, "150 words and more");
  assert.deepEqual(lengthBars(parts.slice(0, 2)), { bars: [{ title: "0 to 49 words", value: 100, beside: 100 }, { title: "50 to 99 words", value: 60, beside: 60 }], high: "100 words" });
  assert.deepEqual(lengthBars([]).bars, []);
});
