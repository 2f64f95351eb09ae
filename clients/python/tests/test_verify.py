import base64
import dataclasses
import json
import re
import sys
import unittest
from unittest import mock

from colophon import LedgerError, VerificationError
from colophon.verify import (
    ForkError, Pins, consistency_ranges, cosignatures, ed25519, open_checkpoint, parse_checkpoint, parse_log_keys, parse_verifier_key,
    require_verified, verify, verify_consistency, verify_inclusion,
)

from .support.log import Log, Signer, consistency, path, public_key, root, sign
from .test_hashes import example

LOG_KEY = Signer("log.example.com/texts", 7)


class Checks(unittest.TestCase):
    def fails(self, code, function, *args, **kwargs):
        with self.assertRaises(VerificationError) as raised:
            function(*args, **kwargs)
        self.assertEqual(raised.exception.code, code, str(raised.exception))
        return raised.exception


class Specification(Checks):
    def setUp(self):
        self.key = example("log", "key")["verifier_key"]

    def test_receipt(self):
        steps = []
        found = verify(example("log", "receipt")["receipt"], self.key, on_step=steps.append)
        self.assertEqual(found.verdict, "holds", found.steps)
        self.assertEqual([s.name for s in found.steps], ["format", "checkpoint", "signature", "event", "inclusion", "members"])
        self.assertEqual(steps, found.steps)
        self.assertEqual((found.event["seq"], found.event_hash), (1, example("log", "chain")["event_hash_1"]))
        self.assertEqual([(s.sibling_side, s.sibling_range, s.range) for s in found.path], [("left", (0, 1), (0, 2)), ("right", (2, 3), (0, 3))])
        self.assertEqual(found.path[1].node.hex(), example("log", "tree")["root_3"])
        self.assertEqual(found.uncovered, [])

    def test_tlog_proof(self):
        text = json.loads(example("log", "tlog-proof")["file"])
        found = require_verified(text.encode(), [self.key])
        self.assertEqual((found.format, found.event_hash), ("tlog-proof", example("log", "chain")["event_hash_1"]))
        for at in range(len(text)):
            changed = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
            self.assertEqual(verify(changed, self.key).verdict, "fails", (at, text[at]))

    def test_handover(self):
        handover = json.loads(example("log", "handover")["handover"])
        following = handover.split("\n")[3]
        answer = json.dumps({"origin": "log.example.com/texts", "verifier_key": following,
                             "retired": [{"verifier_key": self.key, "replaced_at": 2, "signed_up_to": 5, "handover": handover}]})
        self.assertEqual([(k.text, k.until) for k in parse_log_keys(answer)], [(following, None), (self.key, 5)])
        self.fails("malformed", parse_log_keys, answer.replace("log.example.com/texts+", "log.example.com/other+"))
        self.fails("signature", parse_log_keys, answer.replace("/j+YQ4=", "/j+YQ8="))
        self.fails("malformed", parse_log_keys, answer.replace('"replaced_at": 2', '"replaced_at": 9'))

    def test_keys(self):
        k = example("log", "key")
        self.assertEqual(public_key(bytes.fromhex(k["seed"])).hex(), k["public_key"])
        self.assertEqual(parse_verifier_key(k["verifier_key"]).id, k["key_id"])


class ChangedReceipts(Checks):
    log = Log(LOG_KEY).grow(13)
    receipt = log.receipt(5)

    def test_every_byte(self):
        data = self.receipt.encode()
        self.assertEqual(verify(data, LOG_KEY.key).verdict, "holds")
        for at, byte in enumerate(data):
            for other in byte ^ 1, byte ^ 0x20, 0x30 if byte != 0x30 else 0x31:
                changed = data[:at] + bytes([other]) + data[at + 1 :]
                self.assertEqual(verify(changed, LOG_KEY.key).verdict, "fails", (at, data[at - 10 : at + 10], other))

    def test_what_fails(self):
        r = self.receipt

        def flip(member):
            def change(text):
                at = text.index(member) + len(member)
                return text[:at] + ("1" if text[at] == "0" else "0") + text[at + 1 :]
            return change

        minimal = json.dumps({n: v for n, v in json.loads(r).items() if n not in ("event", "inclusion", "checkpoint")})
        for what, changed, step, code in (
            ("a minimal receipt", minimal, "format", "no_proof"),
            ("the event", r.replace('"text":"event 5"', '"text":"event 6"'), "event", "chain_link"),
            ("the previous hash", flip('"prev_event_hash":"')(r), "event", "chain_link"),
            ("the leaf hash", flip('"leaf_hash":"')(r), "event", "chain_link"),
            ("a hash of the path", flip('"inclusion":{"leaf_index":5,"tree_size":13,"hashes":["')(r), "inclusion", "inclusion"),
            ("a path cut short", re.sub('("tree_size":13,"hashes":\\[)"[0-9a-f]{64}",', r"\1", r), "inclusion", "inclusion"),
            ("the index", r.replace('"leaf_index":5', '"leaf_index":4'), "format", "inclusion"),
            ("the size", r.replace('"tree_size":13', '"tree_size":12'), "checkpoint", "inclusion"),
            ("the signed size", r.replace("\\n13\\n", "\\n14\\n").replace('"tree_size":13', '"tree_size":14'), "signature", "signature"),
            ("the signature's key", r.replace("— log.example.com", "— log.example.org"), "signature", "wrong_key"),
            ("the origin", r.replace('"checkpoint":"log.example.com/texts\\n', '"checkpoint":"log.example.com/other\\n'), "signature", "signature"),
            ("a leading zero", r.replace("\\n13\\n", "\\n013\\n"), "checkpoint", "malformed"),
            ("the kind", r.replace('"kind":"note"', '"kind":"ipc_record"', 1), "members", "field"),
            ("the time", r.replace("03:04:05", "03:04:06", 1), "members", "field"),
            ("a check that the event lacks", r.replace('"checks":{}', '"checks":{"input_hash":{"result":"match"}}', 1), "members", "field"),
            ("a shape that the event lacks", r.replace('"hashes":{}', '"hashes":{},"shape":"quote"', 1), "members", "field"),
            ("what the record lacks", r.replace('"hashes":{}', '"hashes":{},"incomplete":["seed"]', 1), "members", "field"),
            ("a member twice", r.replace('"hashes":{}', '"hashes":{},"hashes":{}', 1), "format", "malformed"),
            ("another kind of number", r.replace('"seq":5', '"seq":5.0', 1), "format", "malformed"),
            ("a number that hashes differently", r.replace('"rules":1', '"rules":1.0'), "event", "chain_link"),
            ("a boolean for a number", r.replace('"seq":5', '"seq":true', 1), "format", "malformed"),
            ("no JSON", r[:-1], "format", "malformed"),
        ):
            with self.subTest(what):
                self.assertNotEqual(changed, r)
                found = verify(changed, LOG_KEY.key)
                self.assertEqual(found.verdict, "fails")
                failed = next(s for s in found.steps if s.verdict == "fails")
                self.assertEqual((failed.name, failed.code), (step, code), failed.says)
                self.fails(found.error.code, require_verified, changed, LOG_KEY.key)

    def test_other_spellings(self):
        spelled = self.receipt.replace('"seq":5', ' "seq" : 5', 1).replace("{", '{"drift":{"cause":"seed"},"replayed":true,', 1)
        found = require_verified(spelled.replace('"event 5"', '"\\u0065vent 5"'), LOG_KEY.key)
        self.assertEqual(found.uncovered, ["drift", "replayed"])
        self.assertEqual(found.covered, ["ledger", "seq", "kind", "time", "event_hash", "prev_event_hash", "leaf_hash", "hashes", "checks", "event",
                                         "inclusion", "checkpoint"])

    def test_other_keys(self):
        self.assertEqual(verify(self.receipt, Signer("log.example.com/texts", 8).key).error.code, "wrong_key")
        self.assertEqual(verify(self.receipt, []).error.code, "wrong_key")
        key = parse_verifier_key(LOG_KEY.key)
        self.assertEqual(verify(self.receipt, dataclasses.replace(key, until=12)).error.code, "retired")
        self.assertEqual(verify(self.receipt, dataclasses.replace(key, until=13)).verdict, "holds")

    def test_bad_keys(self):
        for text in ("nonsense", re.sub(r"\+[0-9a-f]{8}\+", "+00000000+", LOG_KEY.key), Signer("a.example", 1, 6).key, LOG_KEY.key[:-8], "a+00000000+AR=="):
            self.fails("malformed", verify, self.receipt, text)


class Witnesses(Checks):
    def test_cosignatures(self):
        log = Log(LOG_KEY).grow(3)
        one, two, three = (Signer(f"witness.example/w{n}", 40 + n, 4) for n in (1, 2, 3))
        text = log.text()
        note = log.checkpoint() + one.cosign(text, 1767323045) + two.cosign(text, 1767323046) + Signer("unknown.example", 9, 4).cosign(text, 1)
        receipt = log.receipt(1, checkpoint=note)
        witnesses = [w.key for w in (one, two, three)]
        found = require_verified(receipt, LOG_KEY.key, witnesses=witnesses, quorum=2)
        self.assertEqual([(c.key.name, c.time) for c in found.cosignatures], [("witness.example/w1", 1767323045), ("witness.example/w2", 1767323046)])
        self.assertEqual(verify(receipt, LOG_KEY.key, witnesses=witnesses, quorum=3).error.code, "witnesses")
        self.fails("wrong_key", open_checkpoint, note, one.key)  # a witness's key cannot sign for a log
        signature = bytearray(base64.b64decode(one.cosign(text, 5).split(" ")[2])[4:])
        signature[7] = 6
        self.fails("signature", cosignatures, parse_checkpoint(log.checkpoint() + one.line(bytes(signature))), one.key)
        as_log = Signer("witness.example/w1", 41, 1)
        self.assertEqual(cosignatures(parse_checkpoint(log.checkpoint() + as_log.sign(text)), as_log.key), [])


class Proofs(Checks):
    log = Log(LOG_KEY).grow(70)

    def test_inclusion(self):
        for size in (1, 2, 3, 4, 5, 7, 8, 13, 33, 64, 70):
            leaves = self.log.leaves[:size]
            for i in range(size):
                proof = path(i, leaves)
                verify_inclusion(leaves[i], i, size, proof, root(leaves))
                if size > 1:
                    self.fails("inclusion", verify_inclusion, leaves[i], (i + 1) % size, size, proof, root(leaves))
            self.fails("range", verify_inclusion, leaves[0], size, size, [], root(leaves))

    def test_consistency(self):
        for second in range(1, 34):
            leaves = self.log.leaves[:second]
            for first in range(1, second + 1):
                proof, before = consistency(first, leaves), root(leaves[:first])
                self.assertEqual(len(consistency_ranges(first, second)), len(proof))
                verify_consistency(first, before, second, root(leaves), proof)
                for i, h in enumerate(proof):
                    changed = proof[:i] + [bytes([h[0] ^ 1]) + h[1:]] + proof[i + 1 :]
                    self.fails("consistency", verify_consistency, first, before, second, root(leaves), changed)
                if proof:
                    self.fails("consistency", verify_consistency, first, before, second, root(leaves), proof[1:])
        self.fails("range", verify_consistency, 0, b"", 1, b"", [])


class Forks(Checks):
    log = Log(LOG_KEY).grow(40)

    def prove(self, log):
        return lambda first, second: [h.hex() for h in consistency(first, log.leaves[:second])]

    def test_remembers_the_largest(self):
        pins = Pins({})
        self.fails("wrong_key", pins.remember, self.log.checkpoint(10), self.prove(self.log))
        pins.pin_key(LOG_KEY.key)
        changes = [pins.remember(self.log.checkpoint(size), self.prove(self.log)).change for size in (10, 10, 40, 20)]
        self.assertEqual(changes, ["first", "same", "grown", "older"])
        self.assertEqual(pins.checkpoint(LOG_KEY.name).size, 40)

    def test_notices_a_rollback_without_a_proof(self):
        def refused(first, second):
            raise LedgerError("GET /proofs/consistency", 400, "second is larger than the tree")

        pins = Pins({})
        pins.pin_key(LOG_KEY.key)
        pins.remember(self.log.checkpoint(40), refused)
        error = self.fails("rollback", pins.remember, self.log.checkpoint(30), refused, newest=True)
        self.assertEqual((error.remembered, error.shown), (self.log.checkpoint(40), self.log.checkpoint(30)))
        with self.assertRaises(LedgerError):
            pins.remember(self.log.checkpoint(30), refused)

    def test_begins_with_an_empty_log(self):
        pins = Pins({})
        pins.pin_key(LOG_KEY.key)
        self.assertEqual([pins.remember(self.log.checkpoint(n), self.prove(self.log)).change for n in (0, 3)], ["first", "grown"])

    def test_notices_a_fork(self):
        for size in 30, 40, 50:
            store = {}
            pins = Pins(store)
            pins.pin_key(LOG_KEY.key)
            pins.remember(self.log.checkpoint(40), self.prove(self.log))
            kept = dict(store)
            fork = Log(LOG_KEY).grow(25).grow(25, "other")
            error = self.fails("fork", pins.remember, fork.checkpoint(size), self.prove(fork))
            self.assertIsInstance(error, ForkError)
            self.assertEqual((error.remembered, error.shown, store), (self.log.checkpoint(40), fork.checkpoint(size), kept))

    def test_accepts_a_new_key_only_from_the_old_one(self):
        following = Signer(LOG_KEY.name, 8)
        text = f"colophon key rotation v1\n{LOG_KEY.name}\n{LOG_KEY.key}\n{following.key}\n"
        both = text + "\n" + following.sign(text) + LOG_KEY.sign(text)

        def answer(signed_up_to, handover=both):
            return json.dumps({"origin": LOG_KEY.name, "verifier_key": following.key,
                               "retired": [{"verifier_key": LOG_KEY.key, "replaced_at": 12, "signed_up_to": signed_up_to, "handover": handover}]})

        first = json.dumps({"origin": LOG_KEY.name, "verifier_key": LOG_KEY.key, "retired": []})
        pins = Pins({})
        self.assertEqual(pins.follow_keys(first)[1], "first")
        self.assertEqual(pins.follow_keys(answer(None))[1], "rotated")
        self.assertEqual(pins.key(LOG_KEY.name).text, LOG_KEY.key)  # while both keys sign, the old key stays pinned
        keys, _ = pins.follow_keys(answer(20))
        self.assertEqual([(k.text, k.until) for k in keys], [(following.key, None), (LOG_KEY.key, 20)])
        self.assertEqual(pins.key(LOG_KEY.name).text, following.key)
        self.fails("key_changed", pins.follow_keys, first)
        self.fails("wrong_key", pins.follow_keys, answer(20, text + "\n" + following.sign(text)))

    def test_a_server_does_not_evade_the_pins_with_another_origin(self):
        def answer(signer):
            return json.dumps({"origin": signer.name, "verifier_key": signer.key, "retired": []})

        store = {}
        own, other = Signer("log.example.com/texts", 7), Signer("log.example.com/others", 8)
        self.assertEqual(Pins(store).follow_keys(answer(own), "https://ledger.example")[1], "first")
        kept = dict(store)
        self.fails("key_changed", Pins(store).follow_keys, answer(other), "https://ledger.example")
        self.assertEqual(store, kept, "nothing new is remembered")
        self.assertEqual(Pins(store).follow_keys(answer(own), "https://ledger.example")[1], "same")
        self.assertEqual(Pins(store).follow_keys(answer(other), "https://other.example")[1], "first")


class Ed25519(unittest.TestCase):
    # RFC 8032, 7.1
    vectors = [
        ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
        ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
    ]

    def test_python_alone_and_with_cryptography(self):
        for public, message, signature in self.vectors:
            public, message, signature = map(bytes.fromhex, (public, message, signature))
            for check in ed25519.verify_in_python, ed25519.verify:
                self.assertTrue(check(public, signature, message))
                self.assertFalse(check(public, signature, message + b"x"))
                self.assertFalse(check(public, signature[:63], message))
                self.assertFalse(check(public[:31], signature, message))
                for at in 0, 31, 32, 63:
                    self.assertFalse(check(public, signature[:at] + bytes([signature[at] ^ 1]) + signature[at + 1 :], message))

    def test_refuses_other_spellings(self):
        seed = bytes([3]) * 32
        public, message = public_key(seed), b"m"
        signature = sign(seed, message)
        larger = int.from_bytes(signature[32:], "little") + ed25519.L  # the same number modulo the group order
        for check in ed25519.verify_in_python, ed25519.verify:
            self.assertTrue(check(public, signature, message))
            self.assertFalse(check(public, signature[:32] + larger.to_bytes(32, "little"), message))

    def test_the_fallback_is_used_without_cryptography(self):
        receipt = Log(LOG_KEY).grow(2).receipt(1)
        with mock.patch.dict(sys.modules, {"cryptography": None, "cryptography.exceptions": None}), \
                mock.patch.object(ed25519, "verify_in_python", wraps=ed25519.verify_in_python) as fallback:
            self.assertEqual(verify(receipt, LOG_KEY.key).verdict, "holds")
            self.assertEqual(verify(receipt.replace("event 1", "event 2"), LOG_KEY.key).verdict, "fails")
        self.assertEqual(fallback.call_count, 2)


if __name__ == "__main__":
    unittest.main()
