"""The hashes of records, as the ledger computes them, byte for byte (spec: IPC hashes; Run-DAG hashes; Citation hashes; Path
fingerprints). The ledger follows CPython, so most of these are CPython's own functions."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._json import canonical, parse, wtf8
from .errors import must
from .verify.tree import run_root

Json = Any  # what json.loads returns
Members = Mapping[str, Any]

CACHE_DIMENSIONS = ("source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash", "schema_version",
                    "canonicalization_version", "chunking_version", "verifier_policy_hash")

_QUOTE = "question retrieval context prompt answer verify final_label".split()
_POINTER = "question retrieval evidence_map prompt raw_answer parsed_claim_lattice verify render final_label".split()
_CLAUSES = "classifier answer_contract prompt_contract evidence_contract policy_refs question_state".split()


def text_hash(text: str) -> str:
    """Returns the SHA-256 of a text, in hexadecimal (spec: Text hash and JSON hash)."""
    return hashlib.sha256(wtf8(text)).hexdigest()


def json_hash(value: Json, *, spaced: bool = False) -> str:
    """Returns the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return text_hash(canonical(value, spaced=spaced))


# IPC records


def system_prompt_form(text: str) -> str:
    """Returns the form of a system prompt that is hashed."""
    return "\n".join(line.strip() for line in text.splitlines()).strip()


def output_form(text: str) -> str:
    """Returns the form of an output that is hashed."""
    return re.sub("  +", " ", text.strip())


def system_prompt_hash(text: str) -> str:
    return text_hash(system_prompt_form(text))


def output_hash(text: str) -> str:
    return text_hash(output_form(text))


def input_hash(payload: Members, schema: str | None = None) -> str:
    """Returns the input_hash of a payload. schema may be "axis-payload-1"."""
    return json_hash(_axis_payload(payload) if schema == "axis-payload-1" else dict(payload), spaced=True)


def seedless_input_hash(payload: Members) -> str:
    """Returns the hash of a payload without its seed (spec: Seedless hash)."""
    return json_hash({name: value for name, value in payload.items() if name != "seed"}, spaced=True)


def ipc_id(
    *, input_hash: str, system_prompt_hash: str, model: str, temperature: float, max_tokens: int, seed: int,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Returns the ipc_id or, with an environment (ollama_build_hash, model_digest, host_platform), the ipc_id_advanced."""
    parts = [input_hash, system_prompt_hash, model, repr(float(temperature)), str(int(max_tokens)), str(int(seed))]
    if environment is not None:
        parts += [environment[name] for name in ("ollama_build_hash", "model_digest", "host_platform")]
    return text_hash(":".join(parts))


def _axis_payload(payload: Members) -> dict[str, Any]:
    axes = {}
    for name, axis in payload["axes"].items():
        score = axis["score"]
        must(isinstance(score, (int, float)) and not isinstance(score, bool), "malformed", f"score of axis {name} is not a number")
        axes[name] = {"label": axis["label"].strip(), "score": float(score)}
    return {"axes": axes, "policy_hash": payload.get("policy_hash"), "seed": int(payload["seed"]), "world_id": payload.get("world_id")}


# Run-DAGs


def nodes_root(nodes: Iterable[Mapping[str, str]]) -> str:
    """Returns the root of a run from the hashes of its stages."""
    return run_root([bytes.fromhex(node["hash"]) for node in nodes]).hex()


def shape(stages: Sequence[str]) -> str:
    """Returns the shape of a run with these stages: quote, pointer, reject, or unrecognised (spec: Run shapes)."""
    names = list(stages)
    if names == ["question", "preflight", "final_label"]:
        return "reject"
    if names[1:2] == ["preflight"]:
        names = names[:1] + names[2:]
    return "quote" if names == _QUOTE else "pointer" if names == _POINTER else "unrecognised"


def failure_stage(audit_mode: str | None, sources: int, quotes: int) -> str | None:
    if audit_mode == "STRICT":
        return None
    return "retrieval" if sources == 0 else "context" if quotes == 0 else "answer"


def _given(members: Members, *names: str) -> dict[str, Any]:
    return {name: members[name] for name in names if members.get(name) is not None}


def _or_null(members: Members, *names: str) -> dict[str, Any]:
    return {name: members.get(name) for name in names}


def _known(name: str, *places: Members) -> Any:
    return next((place[name] for place in places if place.get(name) is not None), None)


def build_nodes(inputs: Members, base: Members | None = None) -> list[dict[str, str]]:
    """Returns the stages that the ledger builds from inputs (spec: Stage hashes).

    base has the hashes that do not follow from the inputs: question_hash, conversation_hash, context_root, and if there are any
    preflight_hash and evidence_map_root. The same names in inputs stand in for them."""
    places = (inputs, base or {})
    answer = inputs.get("answer_text") or ""
    sources = [_or_null(source, "chunk_idx", "document_root", "score", "source_role") for source in inputs["sources"]]
    retrieval = json_hash(sources)
    if plan := _given(inputs, "retrieval_plan_hash"):
        retrieval = json_hash(plan | {"sources_summary_hash": retrieval})
    words = _or_null(inputs, "audit_mode", "verifier_method")
    texts = {"raw_answer_text": answer, "rendered_text": answer, "parsed_lattice": [], "claim_statuses": []}
    texts |= _given(inputs, *texts)
    hashes = {
        "question": _known("question_hash", *places), "preflight": _known("preflight_hash", *places),
        "context": _known("context_root", *places), "evidence_map": _known("evidence_map_root", *places),
        "prompt": _known("conversation_hash", *places), "retrieval": retrieval, "answer": text_hash(answer),
        "raw_answer": text_hash(texts["raw_answer_text"]), "render": text_hash(texts["rendered_text"]),
        "parsed_claim_lattice": json_hash(texts["parsed_lattice"]),
        "verify": json_hash(words | _or_null(inputs, "n_quotes", "n_verified") | _given(inputs, "violations") | {
            "claim_statuses": texts["claim_statuses"],
            "failure_stage": failure_stage(inputs.get("audit_mode"), len(sources), inputs.get("n_quotes") or 0)}),
        "final_label": json_hash(words | _or_null(inputs, "lookup_path") | _given(inputs, "answer_mode")),
    }
    stages = list(_POINTER if hashes["evidence_map"] else _QUOTE)
    if hashes["preflight"]:
        stages.insert(1, "preflight")
    for stage in stages:
        must(hashes[stage], "malformed", f"the hash of stage {stage} is not known")
    return [{"stage": stage, "hash": hashes[stage]} for stage in stages]


def reject_nodes(inputs: Members, base: Members | None = None) -> list[dict[str, str]]:
    """Returns the stages of a rejected run (spec: Rejected runs)."""
    places = (inputs, base or {})
    label = {"audit_mode": "UNGROUNDED", "verifier_method": "claim_lattice_pointer"}
    label |= _given(inputs, "audit_mode", "verifier_method", "violations")
    label |= {"lookup_path": "preflight", "rejection_reason": inputs.get("rejection_reason"), "answer_text_hash": text_hash(inputs.get("answer_text") or "")}
    question, preflight = (_known(name, *places) for name in ("question_hash", "preflight_hash"))
    must(question and preflight, "malformed", "a rejected run needs question_hash and preflight_hash")
    return [{"stage": "question", "hash": question}, {"stage": "preflight", "hash": preflight}, {"stage": "final_label", "hash": json_hash(label)}]


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, list, dict)) and not value)


def preflight_hash(payload: Members) -> str:
    """Returns the hash of a preflight payload (spec: Preflight payload)."""
    stage, version = payload.get("stage"), payload.get("node_version")
    known = set(payload) <= {"stage", "node_version", *_CLAUSES}
    if not known or stage not in (None, "preflight") or version not in (None, "preflight-node-v1"):
        return json_hash(dict(payload))
    clauses = {name: {} if _empty(payload.get(name)) else payload[name] for name in _CLAUSES}
    return json_hash({"stage": "preflight", "node_version": "preflight-node-v1"} | clauses)


def question_form(text: str, mode: str = "equivalence_class") -> str:
    """Returns the form of a question that is hashed (spec: Canonical question). mode is "equivalence_class" or "strict"."""
    must(mode in ("equivalence_class", "strict"), "malformed", f"{mode} is not a mode of questions")
    text = " ".join(unicodedata.normalize("NFC", text).split())
    if mode == "strict":
        return text
    text, before = text.lower(), ""
    while text != before:
        before, text = text, text.strip().rstrip(".?!,;:？！。、…")
    return " ".join(word for word in text.split() if word not in ("the", "a", "an"))


def question_hash(text: str, mode: str = "equivalence_class") -> str:
    return text_hash(question_form(text, mode))


def context_root(source_roots: Iterable[str]) -> str:
    """Returns the context_root of source roots in hexadecimal."""
    return run_root(sorted({bytes.fromhex(root) for root in source_roots})).hex()


def evidence_id(chunk_root: str, start: int, end: int) -> str:
    return "E" + text_hash(f"{chunk_root}:{start:d}:{end:d}")[:8]


def evidence_map_root(ids: Iterable[str]) -> str:
    return run_root(sorted(wtf8(i) for i in ids)).hex()


def cache_key(dimensions: Mapping[str, str | None]) -> str:
    """Returns the cache key of eight dimensions, or of nine with verifier_policy_hash (spec: Cache key)."""
    for name in CACHE_DIMENSIONS[:8]:
        must(dimensions.get(name) is not None, "malformed", f"cache dimension {name} is not given")
    return text_hash("|".join(str(dimensions[name]) for name in CACHE_DIMENSIONS if dimensions.get(name) is not None))


# Citations


def chunk_hash(text: str) -> str:
    """Returns the hash of a citation's text, with its prefix."""
    return "sha256:" + text_hash(" ".join(text.split()))


def citations_document(citations: Sequence[Members]) -> dict[str, Any]:
    """Returns the citations document (spec: Citations document)."""
    sections: dict[str, list[Members]] = {}
    for citation in citations:
        sections.setdefault(citation.get("section") or "unknown", []).append(citation)
    return {"by_section": sections, "all_citations": list(citations), "total_count": len(citations),
            "source_ids": sorted({citation["source_id"] for citation in citations})}


def pinned_retrieval(sources: Iterable[Members], required: Iterable[str], top_k: int = 5) -> list[dict[str, str]]:
    """Returns the chunks of a pinned retrieval (spec: Pinned retrieval)."""
    must(top_k >= 0, "malformed", f"top_k is {top_k}, and cannot be negative")
    rows = []
    for source in sources:
        for chunk in source.get("chunks") or []:
            text = chunk.get("text") or ""
            rows.append({"hash": chunk_hash(text), "text": text, "source_id": source.get("id") or "unknown"})
    wanted, taken, pinned = set(required), set(), []
    for row in rows:
        if row["hash"] in wanted and row["hash"] not in taken:
            taken.add(row["hash"])
            pinned.append(row)
    others = sorted((row for row in rows if row["hash"] not in wanted), key=lambda row: row["hash"])
    return (pinned + others)[:top_k]


# Paths


def _md5(text: str) -> str:
    return hashlib.md5(wtf8(text), usedforsecurity=False).hexdigest()  # an identifier


def path_id(route: Sequence[str], digits: int = 8) -> str:
    """Returns the path_id of a route: 8 digits, or as many as asked for."""
    return _md5(" → ".join(route))[:digits]


def _squeeze(content: str) -> str:
    return re.sub("\n\n+", "\n\n", re.sub("  +", " ", content)).strip()


def content_fingerprint(content: str) -> str:
    """Returns the fingerprint of a passage without its links."""
    return _md5(_squeeze(re.sub(r"\[.*?\]\(.*?\)", "", re.sub(r"\[\[.*?\]\]", "", content))))[:8]


def raw_content_fingerprint(content: str) -> str:
    """Returns the fingerprint of a passage with its links."""
    return _md5(_squeeze(content))[:8]


# Events


def idempotency_key_digest(key: str) -> str:
    """Returns the digest of an idempotency key as the event names it (spec: Idempotency)."""
    return text_hash("key\0" + key)


def run_key_digest(kind: str, run_id: str) -> str:
    """Returns the digest of the key that a run_id is."""
    return text_hash(f"run_id\0{kind}\0{run_id}")


def recompute(kind: str, record: Members, contents: Mapping[str, str]) -> dict[str, str]:
    """Returns the hashes of an event's record that can be recomputed: hash by name. A stage is nodes/<i>, a citation citations/<i>.

    contents are the record's contents as texts, by the names that the event gives them. Compare with named_hashes."""
    found: dict[str, str] = {}

    def of_text(name: str, content: str, form: Any) -> None:
        if content in contents:
            found[name] = text_hash(form(contents[content]))

    def of_json(name: str, content: str, spaced: bool = False) -> None:
        if content in contents:
            found[name] = json_hash(parse(contents[content]), spaced=spaced)

    hashes = record.get("hashes") or {}
    if kind == "ipc_record":
        if "payload_schema" not in record:
            of_json("input_hash", "payload", spaced=True)
        of_text("system_prompt_hash", "system_prompt", system_prompt_form)
        of_text("output_hash", "output", output_form)
        chain = [hashes.get(name) for name in ("input_hash", "system_prompt_hash", "output_hash")]
        numbers = [record.get(name) for name in ("temperature", "max_tokens", "seed")]
        if None not in chain + numbers:
            known = {"input_hash": chain[0], "system_prompt_hash": chain[1], "model": record["model"], "temperature": numbers[0],
                     "max_tokens": numbers[1], "seed": numbers[2]}
            found["ipc_id"] = ipc_id(**known)
            environment = record.get("environment") or {}
            if all(environment.get(name) is not None for name in ("ollama_build_hash", "model_digest", "host_platform")):
                found["ipc_id_advanced"] = ipc_id(**known, environment=environment)
    elif kind == "run_dag":
        nodes = record.get("nodes") or []
        found["root"] = nodes_root(nodes)
        of_json("conversation_hash", "messages")
        of_json("governance_policy_hash", "policy")
        of_json("verifier_policy_hash", "verifier_policy")
        inputs = parse(contents["inputs"]) if "inputs" in contents else {}
        answer = inputs.get("answer_text", contents.get("answer_text"))
        stages = [node.get("stage") for node in nodes]
        at = stages.index("answer") if "answer" in stages else -1
        if at < 0 and "render" in stages:
            at, answer = stages.index("render"), inputs.get("rendered_text") or answer
        if at >= 0 and isinstance(answer, str):
            found[f"nodes/{at}"] = text_hash(answer)
    elif kind == "citation_set":
        for i in range(len(record.get("citations") or [])):
            if (text := contents.get(f"citations/{i}/text")) is not None:
                found[f"citations/{i}"] = chunk_hash(text)
    return found


def named_hashes(kind: str, record: Members) -> dict[str, str | None]:
    """Returns the hashes that an event names, under the names of recompute. A hash is None where the record has none."""
    hashes = dict(record.get("hashes") or {})
    if kind == "run_dag":
        hashes |= {f"nodes/{i}": node.get("hash") for i, node in enumerate(record.get("nodes") or [])}
    if kind == "citation_set":
        hashes |= {f"citations/{i}": citation.get("chunk_hash") for i, citation in enumerate(record.get("citations") or [])}
    return hashes


__all__ = [
    "CACHE_DIMENSIONS", "build_nodes", "cache_key", "canonical", "chunk_hash", "citations_document", "content_fingerprint", "context_root",
    "evidence_id", "evidence_map_root", "failure_stage", "idempotency_key_digest", "input_hash", "ipc_id", "json_hash", "named_hashes",
    "nodes_root", "output_form", "output_hash", "parse", "path_id", "pinned_retrieval", "preflight_hash", "question_form", "question_hash",
    "raw_content_fingerprint", "recompute", "reject_nodes", "run_key_digest", "seedless_input_hash", "shape", "system_prompt_form",
    "system_prompt_hash", "text_hash",
]
