"""The oracle of differential tests: it applies operations of CPython to batches of inputs.

Each line of standard input is a JSON array [operation, [input, ...]]; the
answer is one line with the JSON array of results. An operation is a function
of one input, registered with @operation. Bytes travel in base64; texts are
bytes in WTF-8.
"""

import base64
import hashlib
import json
import random
import re
import sys
import unicodedata
from datetime import datetime, timezone

OPERATIONS = {}


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


def raw(data):
    """The bytes that Go sent. Go sends a nil slice as null."""
    return base64.b64decode(data or "")


def decode(data):
    return raw(data).decode("utf-8", "surrogatepass")


def encode(text):
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


# Canonical JSON (spec: Canonical JSON).

MAX_DEPTH = 512


class Refused(ValueError):
    pass


def members(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Refused("duplicate member name")
    return result


def number(token):
    value = float(token)
    if value in (float("inf"), float("-inf")):
        raise Refused("out of range")
    return value


def constant(token):
    raise Refused(token)


def depth(source):
    """The maximum depth of nested brackets outside strings."""
    deepest = level = 0
    quoted = escaped = False
    for c in source:
        if escaped:
            escaped = False
        elif quoted:
            escaped = c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "[{":
            level += 1
            deepest = max(deepest, level)
        elif c in "]}":
            level -= 1
    return deepest


def load(source):
    if depth(source) > MAX_DEPTH:
        raise Refused("nested too deeply")
    return json.loads(source, object_pairs_hook=members, parse_float=number, parse_constant=constant)


def compact(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def spaced(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@operation
def canonical(source):
    """Both canonical forms, compact and spaced, or null if source is refused."""
    try:
        value = load(raw(source).decode("utf-8"))
    except ValueError:
        return None
    return [encode(compact(value)), encode(spaced(value))]


@operation
def float_repr(token):
    """repr(float(token)), or null if that is infinite."""
    try:
        return repr(number(token))
    except Refused:
        return None


# Text rules (spec: UTF-8 and WTF-8; Canonical question).


@operation
def strip(text):
    return encode(decode(text).strip())


@operation
def splitlines(text):
    return [encode(line) for line in decode(text).splitlines()]


@operation
def split(text):
    return [encode(word) for word in decode(text).split()]


@operation
def lower(text):
    return encode(decode(text).lower())


@operation
def nfc(text):
    return encode(unicodedata.normalize("NFC", decode(text)))


@operation
def spaces(block):
    """The code points in a block of 256 for which str.isspace is true."""
    return [c for c in range(block * 256, block * 256 + 256) if chr(c).isspace()]


@operation
def assigned(block):
    """The code points in a block of 256 that are assigned in CPython's Unicode version."""
    return [c for c in range(block * 256, block * 256 + 256) if unicodedata.category(chr(c)) != "Cn"]


# Records (spec: Hashes). Each operation takes the JSON of a record,
# or of a part of one, and returns its hashes by name.


def sha(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def json_hash(value):
    return sha(compact(value))


def system_prompt(text):
    return "\n".join(line.strip() for line in text.splitlines()).strip()


def output(text):
    return re.sub(r" {2,}", " ", text.strip())


@operation
def ipc(source):
    r = load(decode(source))
    hashes = dict.fromkeys(["input_hash", "system_prompt_hash", "output_hash", "ipc_id"])
    hashes["input_hash"] = sha(spaced(r["payload"]))
    if r.get("system_prompt") is not None:
        hashes["system_prompt_hash"] = sha(system_prompt(r["system_prompt"]))
    if r.get("output") is not None:
        hashes["output_hash"] = sha(output(r["output"]))
    seed = r.get("seed")
    if seed is None:
        seed = r["payload"].get("seed")
    if None not in (hashes["system_prompt_hash"], hashes["output_hash"], seed):
        chain = f"{hashes['input_hash']}:{hashes['system_prompt_hash']}:{r['model']}:{float(r['temperature'])}:{r['max_tokens']}:{seed}"
        hashes["ipc_id"] = sha(chain)
        e = r.get("environment")
        if e:
            hashes["ipc_id_advanced"] = sha(f"{chain}:{e['ollama_build_hash']}:{e['model_digest']}:{e['host_platform']}")
    return hashes


def pair_root(leaves):
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        if len(level) % 2:
            level.append(level[-1])
        level = [hashlib.sha256(b"\x03" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
    return level[0].hex()


CLAUSES = ["classifier", "answer_contract", "prompt_contract", "evidence_contract", "policy_refs", "question_state"]


def preflight_hash(payload):
    unknown = set(payload) - {"stage", "node_version", *CLAUSES}
    stage, version = payload.get("stage"), payload.get("node_version")
    if unknown or stage not in (None, "preflight") or version not in (None, "preflight-node-v1"):
        return json_hash(payload)
    clauses = {name: payload.get(name) or {} for name in CLAUSES}
    return json_hash({"stage": "preflight", "node_version": "preflight-node-v1", **clauses})


def failure_stage(i):
    if i["audit_mode"] == "STRICT":
        return None
    if not i["sources"]:
        return "retrieval"
    return "answer" if i["n_quotes"] else "context"


def optional(target, source, name):
    if source.get(name) is not None:
        target[name] = source[name]
    return target


def retrieval(i):
    names = ["document_root", "source_role", "score", "chunk_idx"]
    summary = json_hash([{name: s.get(name) for name in names} for s in i["sources"]])
    plan = i.get("retrieval_plan_hash")
    return summary if plan is None else json_hash({"retrieval_plan_hash": plan, "sources_summary_hash": summary})


def default(value, otherwise):
    return otherwise if value is None else value


def build(i, base):
    verify = json_hash(optional({
        "audit_mode": i["audit_mode"], "verifier_method": i["verifier_method"], "n_quotes": i["n_quotes"],
        "n_verified": i["n_verified"], "claim_statuses": default(i.get("claim_statuses"), []),
        "failure_stage": failure_stage(i)}, i, "violations"))
    label = json_hash(optional({
        "audit_mode": i["audit_mode"], "verifier_method": i["verifier_method"],
        "lookup_path": i.get("lookup_path")}, i, "answer_mode"))
    nodes = [("question", base["question_hash"])]
    if base.get("preflight_hash"):
        nodes.append(("preflight", base["preflight_hash"]))
    nodes.append(("retrieval", retrieval(i)))
    answer = i["answer_text"]
    if base.get("evidence_map_root") is not None:
        nodes += [("evidence_map", base["evidence_map_root"]), ("prompt", base["conversation_hash"]),
                  ("raw_answer", sha(default(i.get("raw_answer_text"), answer))),
                  ("parsed_claim_lattice", json_hash(default(i.get("parsed_lattice"), []))), ("verify", verify),
                  ("render", sha(default(i.get("rendered_text"), answer)))]
    else:
        nodes += [("context", base["context_root"]), ("prompt", base["conversation_hash"]), ("answer", sha(answer)),
                  ("verify", verify)]
    return nodes + [("final_label", label)]


def build_reject(i, base):
    label = json_hash(optional({
        "audit_mode": default(i.get("audit_mode"), "UNGROUNDED"),
        "verifier_method": default(i.get("verifier_method"), "claim_lattice_pointer"), "lookup_path": "preflight",
        "rejection_reason": i["rejection_reason"], "answer_text_hash": sha(default(i.get("answer_text"), ""))},
        i, "violations"))
    return [("question", base["question_hash"]), ("preflight", base["preflight_hash"]), ("final_label", label)]


def question(text, mode):
    text = " ".join(unicodedata.normalize("NFC", text).split())
    if mode == "strict":
        return text
    text = text.lower()
    while text and (text[-1] in ".?!,;:？！。、…" or text[-1].isspace()):
        text = text[:-1]
    return " ".join(word for word in text.split() if word not in ("the", "a", "an"))


DIMENSIONS = ["source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash",
              "schema_version", "canonicalization_version", "chunking_version", "verifier_policy_hash"]


@operation
def run_dag(source):
    """The effective hashes and, under "nodes", the stages as stage=hash."""
    r = load(decode(source))
    i = r.get("inputs") or r["reject_inputs"]
    dimensions = r.get("cache_dimensions") or {}
    names = ["question_hash", "preflight_hash", "context_root", "evidence_map_root", "conversation_hash",
             "governance_policy_hash", "verifier_policy_hash"]
    claims = {name: default(i.get(name), dimensions.get(name)) for name in names}
    base = dict(claims)
    if r.get("question") is not None:
        base["question_hash"] = sha(question(r["question"], r.get("question_mode")))
    for name, content in [("conversation_hash", "messages"), ("governance_policy_hash", "policy"),
                          ("verifier_policy_hash", "verifier_policy")]:
        if r.get(content) is not None:
            base[name] = json_hash(r[content])
    if i.get("preflight_payload") is not None:
        base["preflight_hash"] = preflight_hash(i["preflight_payload"])
    if r.get("source_roots") is not None:
        base["context_root"] = pair_root(sorted({bytes.fromhex(root) for root in r["source_roots"]}))
    if r.get("evidence") is not None:
        ids = sorted("E" + sha(f"{e['chunk_root']}:{e['start']}:{e['end']}")[:8] for e in r["evidence"])
        base["evidence_map_root"] = pair_root([id.encode() for id in ids])
    nodes = build(i, base) if r.get("inputs") else build_reject(i, base)
    hashes = {name: value for name, value in base.items() if value is not None}
    hashes["root"] = pair_root([bytes.fromhex(hash) for _, hash in nodes])
    if dimensions:
        computed = {name for name in names if base[name] is not claims[name]}
        values = [base[name] if name in computed else dimensions.get(name) for name in DIMENSIONS]
        if dimensions.get("verifier_policy_hash") is None:
            values.pop()
        hashes["cache_key"] = sha("|".join(map(str, values)))
    hashes["nodes"] = ",".join(f"{stage}={hash}" for stage, hash in nodes)
    return hashes


def chunk_hash(text):
    return "sha256:" + sha(" ".join(text.split()))


@operation
def chunk(text):
    return chunk_hash(decode(text))


@operation
def pinned_retrieval(source):
    r = load(decode(source))
    rows = [{"hash": chunk_hash(c.get("text") or ""), "text": c.get("text") or "", "source_id": s.get("id") or "unknown"}
            for s in r["sources"] for c in s.get("chunks") or []]
    top_k = default(r.get("top_k"), 5)
    required, taken, chosen = set(r["required_chunk_hashes"]), set(), []
    for row in rows:
        if row["hash"] in required and row["hash"] not in taken:
            taken.add(row["hash"])
            chosen.append(row)
    others = sorted((row for row in rows if row["hash"] not in taken), key=lambda row: row["hash"])
    chosen += others[:max(0, top_k - len(chosen))]
    return encode(compact(chosen[:top_k]))


@operation
def path(source):
    r = load(decode(source))

    def md5(text):
        return hashlib.md5(text.encode()).hexdigest()[:8]

    def whitespace(text):
        return re.sub(r"\n{2,}", "\n\n", re.sub(r" +", " ", text)).strip()

    unlinked = re.sub(r"\[.*?\]\(.*?\)", "", re.sub(r"\[\[.*?\]\]", "", r["content"]))
    return {"path_id": md5(" → ".join(r["route"])), "content_fingerprint": md5(whitespace(unlinked)),
            "raw_content_fingerprint": md5(whitespace(r["content"]))}


# Files as other systems write them, including their own hashes (docs/users.md, Files of other systems).
# An operation takes a seed and returns one native value as JSON.

TEXTS = ["", "Once.", "two  spaces\n\n end \u2003", "caf\u00e9 \u2192 \U0001f600", "a\x1cb\u0085c", "\"quoted\"\\", "x" * 200]


def native(function):
    @operation
    def run(seed):
        return encode(json.dumps(function(random.Random(seed)), ensure_ascii=bool(seed % 2)))

    OPERATIONS[function.__name__] = OPERATIONS.pop("run")
    return function


def some(r, **members):
    """A random selection of the members. Each is included with a probability of one half."""
    return {name: value for name, value in members.items() if r.random() < 0.5}


def digest(r):
    return "%064x" % r.getrandbits(256)


def stamp(r):
    return datetime.fromtimestamp(1.7e9 + r.randrange(10**15) / 1e6, timezone.utc)


def axis_payload(r):
    axes = {name: {"label": r.choice(["weary", "kept", "\u00fcber"]), "score": round(r.random(), 3)} for name in r.sample(["age", "health", "demeanor"], 2)}
    return {"axes": axes, "policy_hash": digest(r), "seed": r.randrange(2**32), "world_id": "pipeworks_web"}


def chain(r, payload, prompt, text):
    model, temperature, tokens = r.choice(["gemma2:2b", "llama3.2:1b"]), r.choice([0.2, 0.0, 1.0, 0.7]), r.randrange(10, 2048)
    entry = {"input_hash": sha(spaced(payload)), "model": model, "temperature": temperature, "max_tokens": tokens,
             "system_prompt_hash": sha(system_prompt(prompt)), "output_hash": sha(output(text))}
    entry["ipc_id"] = sha(f"{entry['input_hash']}:{entry['system_prompt_hash']}:{model}:{temperature}:{tokens}:{payload['seed']}")
    return entry


@native
def axis_log(r):
    payload, text = axis_payload(r), r.choice(TEXTS)
    entry = chain(r, payload, r.choice(TEXTS), text)
    if r.random() < 0.3:  # a record that is older than the provenance chain
        for name in ["system_prompt_hash", "output_hash", "ipc_id"]:
            del entry[name]
    return {**entry, "payload": payload, "output": text, "timestamp": stamp(r).isoformat(),
            **some(r, operator="ann", note="n" * 300, attempts=3, tags=["a", "b"], nothing=None)}


@native
def axis_save(r):
    payload, prompt, text = axis_payload(r), r.choice(TEXTS), r.choice(TEXTS)
    entry = chain(r, payload, prompt, text)
    at = stamp(r)
    folder = at.strftime("%Y%m%d_%H%M%S_") + entry["input_hash"][:8]
    files = {
        "system_prompt.md": f"# System Prompt\n\n<!-- Axis Descriptor Lab \u2013 system prompt for save {folder} -->\n\n```text\n{prompt}\n```\n",
        "output.md": f"# Output\n\n<!-- Axis Descriptor Lab \u2013 generated output -->\n<!-- saved: {at.isoformat()} -->\n\n{text}\n",
        **some(r, **{"baseline.md": f"# Baseline (A)\n\n<!-- x -->\n\n{text}\n", "delta.json": {"removed": ["a"], "added": []}}),
    }
    if r.random() < 0.3:  # saved before anything was generated
        del files["output.md"]
        entry["output_hash"] = entry["ipc_id"] = None
    manifest = {name: {"sha256": sha(file) if isinstance(file, str) else None, "role": "x"} for name, file in files.items()}
    metadata = {"folder_name": folder, "timestamp": at.isoformat(), **entry, "seed": payload["seed"], "world_id": payload["world_id"],
                "policy_hash": payload["policy_hash"], "axis_count": len(payload["axes"]), "diff_change_pct": None,
                "manifest": {"manifest_version": 1, "files": manifest}}
    return {"metadata.json": metadata, "payload.json": payload, **files}


@native
def citations(r):
    records = []
    for _ in range(r.randrange(5)):
        text = r.choice(TEXTS)
        records.append({"chunk_hash": chunk_hash(text), "source_id": r.choice(["s1", "s2"]), "text": text, "weight": round(r.random(), 4),
                        "section": r.choice(["Verse 1", "Chorus", None]), **some(r, page=r.randrange(9))})
    by_section = {}
    for c in records:
        by_section.setdefault(c["section"] or "unknown", []).append(c)
    return {"by_section": by_section, "all_citations": records, "total_count": len(records),
            "source_ids": sorted({c["source_id"] for c in records}), "run_id": f"run-{r.randrange(10**9)}", "subject": "song",
            **some(r, skill="LYRICS", seed=42)}


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()[:8]


@native
def validation_cache(r):
    cache = {}
    for _ in range(1 + r.randrange(4)):
        route = " \u2192 ".join(["Start"] + [r.choice(["Day 10 KEB", "raining", "\u00fcber"]) for _ in range(r.randrange(4))])
        content = r.choice(TEXTS)
        naive = stamp(r).replace(tzinfo=None).isoformat()
        cache[md5(route)] = {"route": route, "first_seen": naive, "validated": False, "commit_date": "2025-12-01T06:57:35-05:00", "category": "new",
                             **some(r, content_fingerprint=md5(content.strip()), route_hash=md5(route))}
        if r.random() < 0.5:
            cache[md5(route)].update(validated=True, validated_at=naive, validated_by="ann")
    return {**cache, "last_updated": "2025-11-21T21:40:37.539570"}


@native
def providence(r):
    asked, answer, raw = "What is the fastest CPU?", r.choice(TEXTS), r.choice(TEXTS)
    i = {"audit_mode": r.choice(["STRICT", "HYBRID", "UNGROUNDED"]), "verifier_method": "quote", "n_quotes": r.randrange(3), "n_verified": 0,
         "lookup_path": "primary", "answer_text": answer, "raw_answer_text": raw, "rendered_text": answer,
         "sources": [{"document_root": digest(r), "source_role": "primary", "score": 12.5, "chunk_idx": n, "title": "t"} for n in range(r.randrange(3))]}
    base = {"question_hash": sha(question(asked, r.choice(["strict", "equivalence_class"]))), "conversation_hash": digest(r), "context_root": digest(r)}
    if r.random() < 0.5:
        base["evidence_map_root"] = digest(r)
        i["answer_mode"] = "claim_lattice_pointer"
    nodes = build(i, base)
    dag = {"root": pair_root([bytes.fromhex(hash) for _, hash in nodes]), "nodes": [{"stage": stage, "hash": hash} for stage, hash in nodes]}
    dimensions = {**{name: digest(r) for name in DIMENSIONS}, **base, "schema_version": "9.8", "canonicalization_version": "norm-v1", "chunking_version": "c1"}
    row = {"id": r.randrange(999), **{name: dimensions[name] for name in DIMENSIONS}, **base, "cache_key": sha("|".join(dimensions[name] for name in DIMENSIONS)),
           "question_text": asked, "answer_text": answer, "raw_text": raw, "rendered_text": answer,
           **{name: i[name] for name in ["audit_mode", "verifier_method", "n_quotes", "n_verified", "lookup_path"]},
           **some(r, answer_mode=i.get("answer_mode")),
           "run_dag_root": dag["root"], "unverified_quotes": json.dumps(["q"]), "hit_count": r.randrange(99), "created_at": r.randrange(1, 2**31)}
    if "answer_mode" in i:
        row["answer_mode"] = i["answer_mode"]
    blob = {"dag": json.dumps(dag) if r.random() < 0.5 else dag}
    if r.random() < 0.6:
        blob["sources"] = i["sources"]
    row["run_dag_blob"] = json.dumps(blob) if r.random() < 0.5 else blob
    row.update(some(r, state=r.choice(["live", "stale", "failed", "quarantined"]), state_reason="because"))
    return row


def main():
    for line in sys.stdin.buffer:
        name, batch = json.loads(line)
        function = OPERATIONS[name]
        sys.stdout.write(json.dumps([function(item) for item in batch]) + "\n")
        sys.stdout.flush()


main()
