#!/usr/bin/env python3
"""The text rules, canonical JSON, and hashes of Colophon, as docs/spec states them.

It needs the standard library of Python 3.11 and shares no code with Colophon. Comments
name the headings that they implement.

    hashes.py vectors testdata/vectors    computes the test vectors
    hashes.py examples docs/spec          computes examples of these documents
"""
import glob, hashlib, json, math, re, sys, unicodedata

def require(condition, *what):
    if not condition:
        raise SystemExit("not verified: " + " ".join(str(w) for w in what))

def sha(data):
    return hashlib.sha256(data).digest()

# Text and JSON

def wtf8(text):  # UTF-8 and WTF-8
    return text.encode("utf-8", "surrogatepass")

def unique(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate member name")
    return members

def double(token):
    value = float(token)
    if not math.isfinite(value):  # too large, or NaN and Infinity as such
        raise ValueError("double out of range")
    return value

def depth(text):
    deepest = at = 0
    for c in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
        at += (c in "[{") - (c in "]}")
        deepest = max(deepest, at)
    return deepest

def parse(text):  # Refused JSON
    if depth(text) > 512:
        raise ValueError("too deep")
    return json.loads(text, object_pairs_hook=unique, parse_float=double, parse_constant=double)

def canonical(value, spaced=False):  # Canonical JSON
    separators = (", ", ": ") if spaced else (",", ":")
    return wtf8(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=separators))

def text_hash(text):  # Text hash and JSON hash
    return sha(wtf8(text)).hex()

def json_hash(value):
    return sha(canonical(value)).hex()

# IPC hashes

def prompt_form(text):
    return "\n".join(line.strip() for line in text.splitlines()).strip()

def output_form(text):
    return re.sub("  +", " ", text.strip())

def ipc_id(*parts):
    return text_hash(":".join(parts))

# Run-DAG hashes

def run_root(data):  # Run tree
    level = [sha(b"\0" + leaf) for leaf in data]
    while len(level) > 1:
        level = [sha(b"\3" + level[i] + level[min(i + 1, len(level) - 1)]) for i in range(0, len(level), 2)]
    return level[0].hex()

def nodes_root(nodes):
    return run_root([bytes.fromhex(n["hash"]) for n in nodes])

QUOTE = "question retrieval context prompt answer verify final_label".split()
POINTER = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label".split()

def shape(names):  # Run shapes
    if names == ["question", "preflight", "final_label"]:
        return "reject"
    if names[1:2] == ["preflight"]:
        names = names[:1] + names[2:]
    return {tuple(QUOTE): "quote", tuple(POINTER): "pointer"}.get(tuple(names), "unrecognised")

def failure_stage(audit_mode, sources, quotes):  # Failure stage
    if audit_mode == "STRICT":
        return None
    return "retrieval" if sources == 0 else "context" if quotes == 0 else "answer"

def given(members, *names):
    return {n: members[n] for n in names if members.get(n) is not None}

def or_null(members, *names):
    return {n: members.get(n) for n in names}

def build_nodes(i, base):  # Stage hashes
    answer = i["answer_text"]
    sources = [or_null(s, "chunk_idx", "document_root", "score", "source_role") for s in i["sources"]]
    retrieval = json_hash(sources)
    if plan := given(i, "retrieval_plan_hash"):
        retrieval = json_hash(plan | {"sources_summary_hash": retrieval})
    words = or_null(i, "audit_mode", "verifier_method")
    defaults = {"raw_answer_text": answer, "rendered_text": answer, "parsed_lattice": [], "claim_statuses": []}
    defaults |= given(i, *defaults)
    hashes = {
        "question": base["question_hash"], "preflight": base.get("preflight_hash"), "context": base.get("context_root"),
        "evidence_map": base.get("evidence_map_root"), "prompt": base["conversation_hash"], "retrieval": retrieval,
        "answer": text_hash(answer),
        "raw_answer": text_hash(defaults["raw_answer_text"]), "render": text_hash(defaults["rendered_text"]),
        "parsed_claim_lattice": json_hash(defaults["parsed_lattice"]),
        "verify": json_hash(words | or_null(i, "n_quotes", "n_verified") | given(i, "violations") | {
            "claim_statuses": defaults["claim_statuses"],
            "failure_stage": failure_stage(i["audit_mode"], len(i["sources"]), i["n_quotes"])}),
        "final_label": json_hash(words | or_null(i, "lookup_path") | given(i, "answer_mode")),
    }
    names = list(POINTER if base.get("evidence_map_root") else QUOTE)
    if base.get("preflight_hash"):
        names.insert(1, "preflight")
    return [{"stage": n, "hash": hashes[n]} for n in names]

def reject_nodes(i, base):  # Rejected runs
    label = {"audit_mode": "UNGROUNDED", "verifier_method": "claim_lattice_pointer"} | given(i, "audit_mode", "verifier_method", "violations")
    label |= {"lookup_path": "preflight", "rejection_reason": i["rejection_reason"], "answer_text_hash": text_hash(i.get("answer_text") or "")}
    hashes = {"question": base["question_hash"], "preflight": base["preflight_hash"], "final_label": json_hash(label)}
    return [{"stage": s, "hash": h} for s, h in hashes.items()]

CLAUSES = "classifier answer_contract prompt_contract evidence_contract policy_refs question_state".split()

def preflight_form(payload):  # Preflight payload
    unknown = set(payload) - {"stage", "node_version", *CLAUSES}
    stage, version = payload.get("stage"), payload.get("node_version")
    if unknown or stage not in (None, "preflight") or version not in (None, "preflight-node-v1"):
        return payload
    empty = (None, "", [], {})
    clauses = {c: {} if any(payload.get(c) is e or payload.get(c) == e and type(payload.get(c)) is type(e) for e in empty)
               else payload[c] for c in CLAUSES}
    return {"stage": "preflight", "node_version": "preflight-node-v1"} | clauses

def question_form(text, mode="equivalence_class"):  # Canonical question
    text = " ".join(unicodedata.normalize("NFC", text).split())
    if mode == "strict":
        return text
    text, before = text.lower(), None
    while text != before:
        before, text = text, text.strip().rstrip(".?!,;:？！。、…")
    return " ".join(w for w in text.split() if w not in ("the", "a", "an"))

def context_root(roots):  # Hashes of other content
    return run_root(sorted({bytes.fromhex(r) for r in roots}))

def evidence_id(e):
    return "E" + text_hash("%s:%d:%d" % (e["chunk_root"], e["start"], e["end"]))[:8]

def evidence_map_root(ids):
    return run_root(sorted(wtf8(i) for i in ids))

DIMENSIONS = ("source_root question_hash model_profile_hash conversation_hash governance_policy_hash "
              "schema_version canonicalization_version chunking_version verifier_policy_hash").split()

def cache_key(dimensions):  # Cache key
    return text_hash("|".join(dimensions[n] for n in DIMENSIONS if dimensions.get(n) is not None))

# Citation hashes, Path fingerprints

def chunk_hash(text):
    return "sha256:" + text_hash(" ".join(text.split()))

def citations_document(citations):  # Citations document
    sections = {}
    for c in citations:
        sections.setdefault(c.get("section") or "unknown", []).append(c)
    return {"by_section": sections, "all_citations": citations, "total_count": len(citations),
            "source_ids": sorted({c["source_id"] for c in citations})}

def pinned_retrieval(sources, required, top_k):  # Pinned retrieval
    rows = [{"hash": chunk_hash(c.get("text") or ""), "text": c.get("text") or "", "source_id": s.get("id") or "unknown"}
            for s in sources for c in s.get("chunks") or []]
    taken, first = set(), []
    for row in rows:
        if row["hash"] in required and row["hash"] not in taken:
            taken.add(row["hash"])
            first.append(row)
    return (first + sorted((r for r in rows if r["hash"] not in required), key=lambda r: r["hash"]))[:top_k]

def md5(text):
    return hashlib.md5(wtf8(text)).hexdigest()

def rule_w(text):
    return re.sub("\n\n+", "\n\n", re.sub("  +", " ", text)).strip()

def rule_l(text):
    return re.sub(r"\[.*?\]\(.*?\)", "", re.sub(r"\[\[.*?\]\]", "", text))

# Test vectors
def equal(got, want, *what):
    require(got == want, *what, "is", got, "and should be", want)

def vectors(folder):
    read = lambda name: json.load(open("%s/%s.json" % (folder, name), encoding="utf-8"))
    v = read("canonical-json")
    for case in v["values"]:
        value = parse(case["json"])
        equal(canonical(value, True), wtf8(case["spaced"]), case["json"])
        equal(canonical(value), wtf8(case["compact"]), case["json"])
        equal(json_hash(value), case["sha256_compact"], case["json"])
    for case in v["lone_surrogates"]:
        equal(json_hash(parse(case["json"])), case["sha256_compact_wtf8"], case["json"])
    for case in v["reject"]:
        try:
            parse(case["json"])
        except ValueError:
            continue
        require(False, "not refused:", case["json"][:60])
    v = read("ipc")
    for name, form in ("system_prompts", prompt_form), ("outputs", output_form):
        for case in v[name]:
            equal(form(case["text"]), case["normalised"], name)
            equal(text_hash(form(case["text"])), case["sha256"], name)
    for case in v["payloads"]:
        equal(sha(canonical(parse(case["json"]), True)).hex(), case["sha256"], case["json"])
    for case in v["ipc_ids"] + v["ipc_ids_advanced"]:
        parts = [case[n] for n in ("input_hash", "system_prompt_hash", "model")]
        parts += [repr(float(case["temperature_json"])), str(case["max_tokens"]), str(case["seed"])]
        parts += [case[n] for n in ("ollama_build_hash", "model_digest", "host_platform") if n in case]
        equal(ipc_id(*parts), case["sha256"], "ipc_id")
    v = read("run-dag")
    for name, build in ("build", build_nodes), ("reject", reject_nodes):
        for case in v[name]:
            nodes = build(case["inputs"], case["inputs"])
            equal(nodes, case["dag"]["nodes"], name)
            equal(nodes_root(nodes), case["dag"]["root"], name)
    for name, result, compute in (
            ("merkle", "root", lambda c: run_root([bytes.fromhex(leaf) for leaf in c["leaves"]])),
            ("localize_failure", "stage", lambda c: failure_stage(c["audit_mode"], c["n_sources"], c["n_quotes"])),
            ("preflight", "sha256", lambda c: json_hash(preflight_form(c["payload"]))),
            ("cache_keys", "sha256", lambda c: cache_key(dict(zip(DIMENSIONS, c["dimensions"])))),
            ("context_roots", "root", lambda c: context_root(c["document_roots"])),
            ("evidence_map_roots", "root", lambda c: evidence_map_root(c["evidence_ids"])),
            ("json_hashes", "sha256", lambda c: json_hash(parse(c["json"]))),
            ("evidence_ids", "id", evidence_id)):  # Hashes of other content
        for case in v[name]:
            equal(compute(case), case[result], name)
    for case in v["questions"]:
        for mode, hash_name in ("equivalence_class", "sha256"), ("strict", "sha256_strict"):
            equal(question_form(case["text"], mode), case[mode], case["text"])
            equal(text_hash(case[mode]), case[hash_name], case["text"])
    v = read("citations")
    for case in v["chunks"]:
        equal(chunk_hash(case["text"]), case["hash"], "chunk")
    for case in v["documents"]:
        equal(canonical(citations_document(case["citations"])), canonical(case["document"]), "document")
    for case in v["pinned_retrieval"]:
        equal(pinned_retrieval(case["sources"], case["required_chunk_hashes"], case["top_k"]), case["chunks"], "pinned retrieval")
    v = read("paths")
    for case in v["path_ids"]:
        equal(md5(" → ".join(case["route"]))[:16], case["path_id_16"], "path id")
    for case in v["contents"]:
        equal(rule_w(rule_l(case["content"])), case["normalised"], "content")
        equal(md5(case["normalised"])[:8], case["content_fingerprint"], "content")
        equal(md5(rule_w(case["content"]))[:8], case["raw_content_fingerprint"], "content")
    tip, v = bytes(32), read("audit-chain")
    for case in v["events"]:
        entry = tip + canonical(case["body"])
        equal(entry.hex(), case["entry_hex"], "entry")
        tip = sha(entry)
        equal(tip.hex(), case["event_hash"], "event hash")
        equal(sha(b"\0" + entry).hex(), case["leaf_hash"], "leaf hash")

def examples(folder):  # Examples
    found = {}
    for file in glob.glob(folder + "/*.md"):
        text = open(file, encoding="utf-8", newline="").read()
        for name, block in re.findall(r"(?ms)^```example ([a-z-]+)\n(.*?)^```$", text):
            lines = (line.split(" = ", 1) for line in block.replace("\n  ", "").split("\n") if line)
            found[name] = {key.rstrip(): value for key, value in lines}
    e = found["canonical-json"]
    equal(canonical(parse(e["json"])), wtf8(e["compact"]), "compact")
    equal(canonical(parse(e["json"]), True), wtf8(e["spaced"]), "spaced")
    for number, form in found["numbers"].items():
        equal(canonical(parse(number)), wtf8(form), number)
    e = {k: parse(v) if v[0] in '"{[' else v for k, v in found["ipc"].items()}
    equal(text_hash(prompt_form(e["system_prompt"])), e["system_prompt_hash"], "system_prompt_hash")
    equal(text_hash(output_form(e["output"])), e["output_hash"], "output_hash")
    equal(sha(canonical(e["payload"], True)).hex(), e["input_hash"], "input_hash")
    parts = e["input_hash"], e["system_prompt_hash"], e["model"], "0.0", "120", "7"
    equal(ipc_id(*parts), e["ipc_id"], "ipc_id")
    equal(ipc_id(*parts, *e["environment"].values()), e["ipc_id_advanced"], "ipc_id_advanced")
    e = {k: parse(v) if v[0] == "{" else v for k, v in found["seedless"].items()}
    del e["payload"]["seed"]
    equal(sha(canonical(e["payload"], True)).hex(), e["seedless_input_hash"], "seedless_input_hash")
    e = {k: parse(v) for k, v in found["stages"].items() if v[0] in '"{['}
    nodes = build_nodes(e["inputs"], {"question_hash": text_hash(question_form(e["question"])),
                        "conversation_hash": json_hash(e["messages"]), "context_root": context_root(e["roots"])})
    equal(nodes, e["nodes"], "nodes")
    equal(nodes_root(nodes), found["stages"]["root"], "root")
    body = parse(found["event"]["body"])
    equal(json_hash(parse(found["event"]["record"])), body["record"]["digest"], "digest")
    equal(text_hash("run_id\0ipc_record\0r1"), body["record"]["idempotency_key"], "idempotency_key")

if __name__ == "__main__":
    {"vectors": vectors, "examples": examples}[sys.argv[1]](sys.argv[2])
    print(sys.argv[1], "verified")
