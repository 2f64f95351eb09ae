"""The client computes the hashes of the vectors that CPython wrote and of the examples in the specification."""

import json
import re
import unittest

from colophon import VerificationError, hashes
from colophon._json import canonical, parse, wtf8
from colophon.verify import event_hash, leaf_hash, run_root

from .support.server import ROOT


def vectors(name: str):
    return parse((ROOT / f"testdata/vectors/{name}.json").read_text(encoding="utf-8"))


def example(document: str, name: str) -> dict[str, str]:
    text = (ROOT / f"docs/spec/{document}.md").read_bytes().decode()
    block = re.search(rf"(?ms)^```example {name}\n(.*?)^```$", text)[1].replace("\n  ", "")
    return {key.rstrip(): value for key, value in (line.split(" = ", 1) for line in block.strip().split("\n"))}


class CanonicalJSON(unittest.TestCase):
    def test_equals_the_vectors(self):
        v = vectors("canonical-json")
        for case in v["values"]:
            value = parse(case["json"])
            self.assertEqual(canonical(value), case["compact"])
            self.assertEqual(canonical(value, spaced=True), case["spaced"])
            self.assertEqual(hashes.json_hash(value), case["sha256_compact"])
            self.assertEqual(hashes.json_hash(value, spaced=True), case["sha256_spaced"])
        for case in v["lone_surrogates"]:
            self.assertEqual(hashes.json_hash(parse(case["json"])), case["sha256_compact_wtf8"])

    def test_refuses_what_the_ledger_refuses(self):
        texts = [case["json"] for case in vectors("canonical-json")["reject"]]
        texts += ["", " ", "[1,]", "{,}", '{"a" 1}', "01", "1.", ".5", "+1", "NaN", "-Infinity", "tru", '"\t"', '"\\x"', '"', "[", "\ufeff1", "1 2",
                  "{'a':1}", "1e400", '{"a":1,"\\u0061":2}', "-" + "1" * 4301, "[" * 513 + "]" * 513, "[" * 5000 + "]" * 5000]
        for text in texts:
            with self.assertRaises(VerificationError, msg=text[:60]):
                parse(text)
        self.assertEqual(len(canonical(parse("1" * 4300))), 4300)
        self.assertEqual(canonical(parse("[" * 512 + "]" * 512)), "[" * 512 + "]" * 512)
        self.assertEqual(parse('"' + "[" * 600 + '"'), "[" * 600)

    def test_prints_the_numbers_of_the_specification(self):
        numbers = example("text-and-json", "numbers")
        self.assertGreater(len(numbers), 10)
        for number, form in numbers.items():
            self.assertEqual(canonical(parse(number)), form)


class IPC(unittest.TestCase):
    def test_texts_and_payloads(self):
        v = vectors("ipc")
        for case in v["system_prompts"]:
            self.assertEqual(hashes.system_prompt_form(case["text"]), case["normalised"])
            self.assertEqual(hashes.system_prompt_hash(case["text"]), case["sha256"])
        for case in v["outputs"]:
            self.assertEqual(hashes.output_form(case["text"]), case["normalised"])
            self.assertEqual(hashes.output_hash(case["text"]), case["sha256"])
        for case in v["payloads"]:
            self.assertEqual(hashes.input_hash(parse(case["json"])), case["sha256"])

    def test_ids(self):
        v = vectors("ipc")
        for case in v["ipc_ids"] + v["ipc_ids_advanced"]:
            known = {name: case[name] for name in ("input_hash", "system_prompt_hash", "model", "max_tokens", "seed")}
            environment = case if "model_digest" in case else None
            self.assertEqual(hashes.ipc_id(**known, temperature=parse(case["temperature_json"]), environment=environment), case["sha256"])

    def test_the_examples_of_the_specification(self):
        seedless, axis = example("hashes", "seedless"), example("hashes", "axis-payload")
        self.assertEqual(hashes.seedless_input_hash(parse(seedless["payload"])), seedless["seedless_input_hash"])
        self.assertEqual(hashes.input_hash(parse(axis["payload"]), "axis-payload-1"), axis["input_hash"])


class RunDAG(unittest.TestCase):
    def test_stages_and_roots(self):
        v = vectors("run-dag")
        for name, build in ("build", hashes.build_nodes), ("reject", hashes.reject_nodes):
            for case in v[name]:
                nodes = build(case["inputs"])
                self.assertEqual(nodes, case["dag"]["nodes"])
                self.assertEqual(hashes.nodes_root(nodes), case["dag"]["root"])
        for case in v["merkle"]:
            self.assertEqual(run_root([bytes.fromhex(leaf) for leaf in case["leaves"]]).hex(), case["root"])
        for case in v["localize_failure"]:
            self.assertEqual(hashes.failure_stage(case["audit_mode"], case["n_sources"], case["n_quotes"]), case["stage"])

    def test_other_hashes(self):
        v = vectors("run-dag")
        for case in v["preflight"]:
            self.assertEqual(hashes.preflight_hash(case["payload"]), case["sha256"])
        for case in v["questions"]:
            for mode, name in ("equivalence_class", "sha256"), ("strict", "sha256_strict"):
                self.assertEqual(hashes.question_form(case["text"], mode), case[mode])
                self.assertEqual(hashes.question_hash(case["text"], mode), case[name])
        for case in v["cache_keys"]:
            self.assertEqual(hashes.cache_key(dict(zip(hashes.CACHE_DIMENSIONS, case["dimensions"]))), case["sha256"])
        for case in v["context_roots"]:
            self.assertEqual(hashes.context_root(case["document_roots"]), case["root"])
        for case in v["evidence_map_roots"]:
            self.assertEqual(hashes.evidence_map_root(case["evidence_ids"]), case["root"])
        for case in v["evidence_ids"]:
            self.assertEqual(hashes.evidence_id(case["chunk_root"], case["start"], case["end"]), case["id"])
        for case in v["json_hashes"]:
            self.assertEqual(hashes.json_hash(parse(case["json"])), case["sha256"])

    def test_the_examples_of_the_specification(self):
        stages = example("hashes", "stages")
        base = {"question_hash": hashes.question_hash(json.loads(stages["question"])), "conversation_hash": hashes.json_hash(parse(stages["messages"])),
                "context_root": hashes.context_root(json.loads(stages["roots"]))}
        nodes = hashes.build_nodes(parse(stages["inputs"]), base)
        self.assertEqual(nodes, parse(stages["nodes"]))
        self.assertEqual(hashes.nodes_root(nodes), stages["root"])
        self.assertEqual(hashes.preflight_hash(parse(example("hashes", "preflight-legacy")["payload"])), example("hashes", "preflight-legacy")["hash"])
        self.assertEqual(hashes.cache_key(parse(example("hashes", "cache-key")["dimensions"])), example("hashes", "cache-key")["cache_key"])

    def test_shapes(self):
        quote = "question retrieval context prompt answer verify final_label".split()
        pointer = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label".split()
        for want, stages in (("quote", quote), ("quote", [quote[0], "preflight", *quote[1:]]), ("pointer", pointer),
                             ("reject", ["question", "preflight", "final_label"]), ("unrecognised", ["x"])):
            self.assertEqual(hashes.shape(stages), want)


class CitationsPathsAndChain(unittest.TestCase):
    def test_citations(self):
        v = vectors("citations")
        for case in v["chunks"]:
            self.assertEqual(hashes.chunk_hash(case["text"]), case["hash"])
        for case in v["documents"]:
            self.assertEqual(canonical(hashes.citations_document(case["citations"])), canonical(case["document"]))
        for case in v["pinned_retrieval"]:
            self.assertEqual(hashes.pinned_retrieval(case["sources"], case["required_chunk_hashes"], case["top_k"]), case["chunks"])

    def test_paths(self):
        v = vectors("paths")
        for case in v["path_ids"]:
            self.assertEqual((hashes.path_id(case["route"]), hashes.path_id(case["route"], 16)), (case["path_id"], case["path_id_16"]))
        for case in v["contents"]:
            self.assertEqual(hashes.content_fingerprint(case["content"]), case["content_fingerprint"])
            self.assertEqual(hashes.raw_content_fingerprint(case["content"]), case["raw_content_fingerprint"])

    def test_the_chain(self):
        v = vectors("audit-chain")
        tip = bytes.fromhex(v["genesis_prev_event_hash"])
        for case in v["events"]:
            entry = tip + wtf8(canonical(case["body"]))
            self.assertEqual(entry.hex(), case["entry_hex"])
            tip = event_hash(entry)
            self.assertEqual((tip.hex(), leaf_hash(entry).hex()), (case["event_hash"], case["leaf_hash"]))


if __name__ == "__main__":
    unittest.main()
