#!/usr/bin/env python3
"""Verify a Colophon log or receipt, as docs/spec states the rules.

It needs the standard library of Python 3.11 and shares no code with Colophon. Comments
name the headings that they implement.

    verify_log.py log log.ndjson --checkpoint FILE [--key VERIFIER_KEY]
    verify_log.py receipt receipt.json --key VERIFIER_KEY

log.ndjson has the lines of GET /events, from the first. Without --key the log is held
to the key that its first event names, which shows that it is consistent, not whose it is.
"""
import argparse, base64, hashlib, json, re, sys
sys.dont_write_bytecode = True
from hashes import (cache_key, canonical, failure_stage, given, ipc_id, json_hash, md5, nodes_root, parse, require, sha,
                    shape, text_hash, wtf8)

# The log

def leaf_hash(entry):  # Merkle tree
    return sha(b"\0" + entry)

def node_hash(left, right):
    return sha(b"\1" + left + right)

class Tree:
    """The roots of complete subtrees, the largest first."""
    def __init__(self):
        self.size, self.subtrees = 0, []

    def append(self, leaf):
        self.size += 1
        size = self.size
        while size % 2 == 0:
            leaf, size = node_hash(self.subtrees.pop(), leaf), size // 2
        self.subtrees.append(leaf)

    def root(self):
        root = None
        for subtree in reversed(self.subtrees):
            root = subtree if root is None else node_hash(subtree, root)
        return root or sha(b"")

def root_of_path(leaf, index, size, path):  # Inclusion and consistency proofs (RFC 9162, 2.1.3.2)
    node, last = leaf, size - 1
    for sibling in path:
        require(last > 0, "the path is too long")
        if index % 2 or index == last:
            node = node_hash(sibling, node)
            while index % 2 == 0 and index:
                index, last = index // 2, last // 2
        else:
            node = node_hash(node, sibling)
        index, last = index // 2, last // 2
    require(last == 0, "the path is too short")
    return node

# Ed25519 (RFC 8032), verification only
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

def add(a, b):
    x = (a[1] - a[0]) * (b[1] - b[0]) % P
    y = (a[1] + a[0]) * (b[1] + b[0]) % P
    t, z = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = y - x, z - t, z + t, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P

def times(n, point):
    result = (0, 1, 1, 0)
    while n:
        result, point, n = add(result, point) if n & 1 else result, add(point, point), n >> 1
    return result

def point(data):
    y, sign = int.from_bytes(data, "little") & (1 << 255) - 1, data[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    require(y < P and (x * x - square) % P == 0, "not a point of Ed25519")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P

def ed25519_verifies(public, signature, message):
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    a, b = times(s, base), add(point(signature[:32]), times(k, point(public)))
    return s < L and (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0

def signed_text(note, keys):
    """The text of a note, and which of the verifier keys signed it (Origin and keys)."""
    text, _, lines = note.rpartition("\n\n")
    text, signers = text + "\n", []
    for line in lines.splitlines():
        dash, name, signature = line.split(" ")
        raw = base64.b64decode(signature, validate=True)
        for key in keys:
            key_name, key_id, material = key.split("+", 2)
            public = base64.b64decode(material, validate=True)
            require(key_id == sha(wtf8(key_name) + b"\n" + public).hex()[:8], "key id of", key)
            if dash == "—" and name == key_name and raw[:4].hex() == key_id:
                require(public[0] == 1 and ed25519_verifies(public[1:], raw[4:], wtf8(text)), "signature of", key)
                signers.append(key)
    return text, signers

def open_checkpoint(note, keys):  # Checkpoints
    text, signers = signed_text(note, keys)
    origin, size, root = text.split("\n")[:3]
    require(any(k.split("+")[0] == origin for k in signers), "no key that counts has signed the checkpoint")
    require(str(int(size)) == size, "spelling of the size")
    return origin, int(size), base64.b64decode(root, validate=True), signers

PARTS = "input_hash system_prompt_hash output_hash temperature max_tokens seed".split()  # Derived members

def verify_receipt(text, keys):  # Verifying a receipt
    r = parse(text)
    require(not re.search("[\ud800-\udfff]", json.dumps(r, ensure_ascii=False)), "the receipt has a lone surrogate")
    require("checkpoint" in r, "a minimal receipt proves nothing")
    _, size, root, _ = open_checkpoint(r["checkpoint"], keys)
    body, inclusion = canonical(r["event"]), r["inclusion"]
    entry = bytes.fromhex(r["prev_event_hash"]) + body
    require(sha(entry).hex() == r["event_hash"] and leaf_hash(entry).hex() == r["leaf_hash"], "hashes of the event")
    require(inclusion["leaf_index"] == r["seq"] and inclusion["tree_size"] == size, "index or size")
    path = [bytes.fromhex(h) for h in inclusion["hashes"]]
    require(root_of_path(leaf_hash(entry), r["seq"], size, path) == root, "inclusion")
    event, record = r["event"], r["event"]["record"]
    for name in ("ledger", "seq", "kind", "time", "checks"):
        require(canonical(r[name]) == canonical(event[name]), name)
    require(canonical(r["hashes"]) == canonical(record.get("hashes", {})), "hashes")
    for name in ("shape", "failure_stage"):
        require((name in r) == (name in record) and r.get(name) == record.get(name), name)
    values = record.get("hashes", {}) | record
    missing = [n.removesuffix("_hash") for n in PARTS if event["kind"] == "ipc_record" and values.get(n) is None]
    require(("incomplete" in r) == bool(missing) and r.get("incomplete", []) == missing, "incomplete")
    return r["seq"]

# Events

BODY = "actor checks kind ledger record rules seq time v".split()
COVERED = {  # the members that the digest of a request covers
    "record_state_changed": "record_seq state reason original_actor timestamp", "note": "record_seq topic text original_actor timestamp",
    "path_validated": "project path_id validated reason original_actor timestamp",
    "source_registered": "source_id reason title chunk_hashes", "source_revoked": "source_id reason",
    "content_redacted": "seqs reason", "key_rotated": "step previous_key verifier_key handover"}

def check_hashes(kind, record, checks):  # Effective hashes
    hashes = record.get("hashes", {})
    if kind == "ipc_record":
        complete = None not in (hashes["output_hash"], hashes["system_prompt_hash"])
        environment = [record.get("environment", {}).get(n) for n in ("ollama_build_hash", "model_digest", "host_platform")]
        if not complete:
            require(hashes["ipc_id"] is None and hashes.get("ipc_id_advanced") is None, "hashes of an incomplete chain")
        elif all(n in record for n in ("temperature", "max_tokens", "seed")):
            parts = [hashes["input_hash"], hashes["system_prompt_hash"], record["model"], repr(record["temperature"])]
            parts += [str(record["max_tokens"]), str(record["seed"])]
            require(hashes["ipc_id"] == ipc_id(*parts), "ipc_id")
            if None not in environment:
                require(hashes["ipc_id_advanced"] == ipc_id(*parts, *environment), "ipc_id_advanced")
    elif kind == "run_dag":
        names = [n["stage"] for n in record["nodes"]]
        require(hashes["root"] == nodes_root(record["nodes"]), "root")
        require(record["shape"] == shape(names), "shape")
        require(record["preflight"] == ("available" if "preflight" in names else "unavailable_legacy_run"), "preflight")
        failed = failure_stage(record.get("audit_mode"), record["n_sources"], record["n_quotes"]) if "n_sources" in record else None
        require(record["failure_stage"] == failed, "failure_stage")
        dimensions = record.get("cache_dimensions")
        if dimensions and None not in dimensions.values():
            require(hashes["cache_key"] == cache_key(dimensions), "cache_key")
    elif kind == "path_fingerprint":
        require(hashes["path_id"] in (md5(" → ".join(record["route"]))[:8], md5(" → ".join(record["route"]))[:16]), "path_id")
    for name, check in checks.items():
        require(check["result"] in ("match", "mismatch", "computed", "claimed", "inconsistent"), name)
        require((check["result"] == "inconsistent") == name.startswith("verdict:"), name)
        require((check["result"] == "mismatch") == ("computed" in check), name)
        if check["result"] == "mismatch":
            require(check["claimed"] != check["computed"], name)
            require(name not in hashes or hashes[name] == check["computed"], name)

def run_key(kind, run_id):  # Idempotency
    return text_hash("run_id\0" + kind + "\0" + run_id)

def verify_log(path, note, keys):  # Verifying a whole log
    tree, tip, last, ledger, held, key_events = Tree(), bytes(32), "", None, {}, []
    for line in open(path, "rb"):
        entry = base64.b64decode(json.loads(line)["entry"])
        seq, body = tree.size, entry[32:]
        event = parse(body.decode())
        kind, record, checks = event["kind"], event["record"], event["checks"]
        require(len(entry) <= 65535 and entry[:32] == tip, "chain at", seq)
        require(canonical(event) == body and sorted(event) == BODY, "form of event", seq)
        ledger = ledger or event["ledger"]
        require((event["seq"], event["v"], event["rules"], event["ledger"]) == (seq, 1, 1, ledger), "frame of event", seq)
        require(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["time"]) and event["time"] >= last, "time of event", seq)
        require((kind == "ledger_created") == (seq == 0), "kind of event", seq)
        key = record.get("idempotency_key")
        if kind == "ledger_created":
            key_events.append((0, record["verifier_key"]))
        elif kind == "record_refused":
            require(("first_seq" in record) == (record["reason"] == "idempotency_key_conflict"), "refusal", seq)
            if key:
                require(held[key][0] == record["first_seq"] and held[key][1] != (record["kind"], record["digest"]), "refusal", seq)
        elif kind in COVERED:
            covered = given(record, *COVERED[kind].split(), *record.get("names", []))
            require(json_hash(covered) == record["digest"], "digest of event", seq)
        else:
            require("run_id" not in record or key, "key of event", seq)
            check_hashes(kind, record, checks)
        if kind == "key_rotated":
            require(key == text_hash("key_rotated\0%d" % len(key_events)), "key of event", seq)
            key_events.append((seq, record["verifier_key"] if record["step"] == "introduced" else None))
        if key and kind != "record_refused":
            require(key not in held, "key of event", seq, "is held")
            held[key] = seq, (kind, record["digest"])
        tree.append(leaf_hash(entry))
        tip, last = sha(entry), event["time"]
    known = [k for _, k in key_events if k]
    require(not keys or set(keys) & set(known), "the log does not have the key")
    origin, size, root, signers = open_checkpoint(note, known)
    require(size <= tree.size and (size < tree.size or root == tree.root()), "root of the log")
    require(size == tree.size, "the checkpoint is of", size, "entries, the file has", tree.size)
    in_force = known[-2:] if key_events[-1][1] and len(known) > 1 else known[-1:]  # Key rotation
    require(set(signers) == set(in_force), "the checkpoint is not signed by the keys in force")
    return "%d entries of %s, root %s" % (size, origin, root.hex())

if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("what", choices=["log", "receipt"])
    arguments.add_argument("file")
    arguments.add_argument("--checkpoint")
    arguments.add_argument("--key", action="append", default=[])
    a = arguments.parse_args()
    if a.what == "log":
        print("verified:", verify_log(a.file, open(a.checkpoint, encoding="utf-8").read(), a.key))
    else:
        print("verified: event", verify_receipt(open(a.file, encoding="utf-8").read(), a.key))
