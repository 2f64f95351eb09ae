import asyncio
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import gc
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

import colophon
from colophon import Ledger, LedgerError, RecordError, SpoolError, UnreachableError, VerificationError, hashes, labels
from colophon._connection import _retry_after, split_url
from colophon._spool import Spool, SpoolFullError, _try_lock
from colophon.ledger import spool_folder
from colophon.verify import verify

from .support.log import Log, Signer
from .support.server import SOURCES, Server, StandIn, accept, environment, eventually, receipt_of, run_python

PROGRAM = str(pathlib.Path(__file__).parent / "support/program.py")
NOWHERE = "http://127.0.0.1:1"


def record(n, **more):
    return {"model": "m", "payload": {"n": n}, "output": f"text {n}", **more}


def quiet(message):
    pass


class Scratch(unittest.TestCase):
    def folder(self) -> str:
        path = tempfile.mkdtemp(prefix="colophon-py-test-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def open(self, url, **options) -> Ledger:
        ledger = Ledger(url, **{"spool": self.folder(), "warn": quiet, "flush_interval": 0.02, **options})
        self.addCleanup(ledger.close, 0)
        return ledger

    def stand_in(self, answer) -> StandIn:
        server = StandIn(answer)
        self.addCleanup(server.close)
        return server

    def stats(self, ledger, **expected):
        found = dataclasses.asdict(ledger.stats())
        self.assertEqual({name: found[name] for name in expected}, expected)


def files(folder, suffix=".ndjson"):
    return sorted(p for p in pathlib.Path(folder).rglob(f"*{suffix}"))


def segments(folder):
    return [p for p in files(folder) if p.name.startswith("python-")]


def run(*args):
    return subprocess.Popen([sys.executable, PROGRAM, *args], env=environment(), stdout=subprocess.PIPE, text=True)


class RealServer(Scratch):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.addClassCleanup(cls.server.remove)

    def test_records_in_the_background_with_the_hashes_computed_here(self):
        receipts, spool = [], self.folder()
        ledger = self.open(self.server.url, spool=spool, verifier_keys=self.server.key(), labels={"service": "test"}, producer="p",
                           on_receipt=lambda r, text: receipts.append((r, text)))
        payload = {"question": "Who?", "weight": 1.0}
        self.assertTrue(ledger.record("ipc_record", {"model": "gemma2:2b", "payload": payload, "system_prompt": "Be brief.", "output": " An  answer. ",
                                                     "temperature": 0, "max_tokens": 10, "seed": 7, "labels": {"a": "b"}, "run_id": None}))
        payload["question"] = "changed later"
        self.assertTrue(ledger.record("note", {"record_seq": 99999, "topic": "t", "text": "no such record"}))
        self.assertTrue(ledger.flush(60))
        receipt, text = receipts[0]
        own = {"input_hash": hashes.input_hash({"question": "Who?", "weight": 1.0}), "system_prompt_hash": hashes.system_prompt_hash("Be brief."),
               "output_hash": hashes.output_hash(" An  answer. ")}
        advanced = hashes.ipc_id(input_hash=own["input_hash"], system_prompt_hash=own["system_prompt_hash"], model="gemma2:2b", temperature=0, max_tokens=10, seed=7)
        self.assertEqual({n: receipt["hashes"][n] for n in own}, own)
        self.assertEqual(receipt["hashes"]["ipc_id"], advanced)
        self.assertEqual(verify(text, self.server.key()).verdict, "holds")
        self.assertEqual(receipt["event"]["record"]["labels"], {"a": "b", "service": "test"})
        self.assertRegex(receipt["event"]["record"]["producer"]["id"], "^p/[0-9a-f]{8}$")
        self.stats(ledger, accepted=2, recorded=1, rejected=1, unverified=0, dropped=0, queued=0)
        entry = json.loads(files(spool)[0].read_text())
        self.assertEqual(entry["line"]["record"]["text"], "no such record")
        self.assertTrue(entry["status"] >= 400 and entry["reason"])
        ledger.close()
        self.assertEqual(segments(spool), [])
        contents = {name: ledger.content(receipt["seq"], name) for name in ("payload", "system_prompt", "output")}
        record = receipt["event"]["record"]
        self.assertEqual(hashes.recompute("ipc_record", record, contents), hashes.named_hashes("ipc_record", record))

    def test_every_kind_has_the_hashes_computed_here(self):
        receipts = []
        ledger = self.open(self.server.url, verifier_keys=self.server.key(), on_receipt=lambda r, text: receipts.append(r))
        lone = "a lone \ud800 surrogate"
        inputs = {"audit_mode": "STRICT", "verifier_method": "m", "n_quotes": 1, "n_verified": 1, "lookup_path": "x", "answer_text": lone,
                  "sources": [{"document_root": "ab" * 32, "source_role": "r", "score": 0.5, "chunk_idx": 1}], "context_root": "ab" * 32,
                  "question_hash": hashes.question_hash("Who?"), "conversation_hash": hashes.json_hash([{"role": "user", "content": lone}])}
        ledger.record("run_dag", {"inputs": inputs, "question": "Who?", "messages": [{"role": "user", "content": lone}]})
        ledger.record("citation_set", {"subject": "s", "citations": [{"source_id": "a", "text": "two  words", "weight": 0.5}]})
        ledger.record("path_fingerprint", {"project": "p", "route": ["Start", "Cave"], "content": "a [[link]]  b"})
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, rejected=0, recorded=3, repaired=0, unverified=0)
        dag, citations, path = receipts
        self.assertEqual(dag["hashes"]["root"], hashes.nodes_root(hashes.build_nodes(inputs)))
        self.assertEqual(citations["event"]["record"]["citations"][0]["chunk_hash"], hashes.chunk_hash("two words"))
        self.assertEqual(path["hashes"]["content_fingerprint"], hashes.content_fingerprint("a [[link]]  b"))
        ledger.close()

    def test_posts_and_verifies_and_raises_what_the_server_says(self):
        ledger = self.open(self.server.ledger, verifier_keys=[self.server.key()], producer="p")
        receipt = ledger.post("ipc_record", record(1, run_id="run-1"))
        self.assertTrue(ledger.post("ipc_record", record(1, run_id="run-1"))["replayed"])
        self.assertEqual([row["seq"] for row in ledger.records(run_id="run-1")], [receipt["seq"]])
        with self.assertRaises(LedgerError) as raised:
            ledger.post("ipc_record", record(2, run_id="run-1"))
        self.assertEqual((raised.exception.status, raised.exception.temporary), (409, False))
        with self.assertRaisesRegex(LedgerError, "model"):
            ledger.post("ipc_record", {"model": 3})
        with self.assertRaisesRegex(LedgerError, "422.*/output"):
            ledger.post("ipc_record", record(1, output="\ud800"))
        with self.assertRaisesRegex(RecordError, "/payload/n"):
            ledger.post("ipc_record", record(float("nan")))
        with self.assertRaises(ValueError):
            ledger.post("note", {})
        self.assertEqual(verify(ledger.receipt(receipt["seq"]), self.server.key()).verdict, "holds")
        other = self.open(self.server.url, verifier_keys=[Signer("other.example", 3).key])
        with self.assertRaises(VerificationError) as raised:
            other.post("ipc_record", record(3))
        self.assertEqual(raised.exception.code, "wrong_key")
        other.record("ipc_record", record(4))
        self.assertTrue(other.flush(60))
        self.stats(other, recorded=1, unverified=1)

    def test_uses_any_text_as_a_key_and_refuses_one_that_the_ledger_would_ignore(self):
        warnings, found = [], []
        ledger = self.open(self.server.url, verifier_keys=self.server.key(), on_receipt=lambda r, text: found.append(r), warn=warnings.append)
        for key in "Schlüssel 1", "鍵 🗝":
            seq = ledger.post("ipc_record", record(1), key=key)["seq"]
            self.assertEqual(ledger.post("ipc_record", record(1), key=key)["seq"], seq)
            self.assertTrue(ledger.record("ipc_record", record(1), key=key))
            self.assertTrue(ledger.flush(60))
            self.assertEqual((found[-1]["seq"], found[-1]["replayed"]), (seq, True), "the same key in a batch")
        before = len(self.server.records())
        for key in "", " ", "\t", "\ud800", 7:
            with self.assertRaisesRegex(ValueError, "leave it out"):
                ledger.post("ipc_record", record(2), key=key)
            self.assertFalse(ledger.record("ipc_record", record(2), key=key))
        for key in " a", "a\nb":
            with self.assertRaisesRegex(ValueError, "use record"):
                ledger.post("ipc_record", record(2), key=key)
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, invalid=5, accepted=2)
        self.assertRegex(warnings[0], "is not recorded: .*leave it out")
        self.assertEqual(len(self.server.records()), before)
        for key in "", "\ud800":  # a generation raises nothing, so it is recorded with a random key
            with ledger.generation(model="m") as g:
                g.key = key
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, invalid=5, accepted=4)
        self.assertEqual(len(self.server.records()), before + 2)

    def test_a_real_receipt_with_any_byte_changed_fails(self):
        ledger = self.open(self.server.url)
        ledger.post("ipc_record", record(5, system_prompt="p", temperature=0.5, labels={"a": "ü"}))
        seq = ledger.post("ipc_record", record(6, system_prompt="p", temperature=0.5, max_tokens=5, seed=1))["seq"]
        data, key = ledger.receipt(seq - 1).encode(), self.server.key()
        self.assertEqual(verify(data, key).verdict, "holds")
        for at in range(len(data)):
            if data[at] in b" \n":  # white space does not matter
                continue
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            self.assertEqual(verify(changed, key).verdict, "fails", (at, data[at - 10 : at + 10]))

    def test_a_run_has_several_generations(self):
        found = []
        ledger = self.open(self.server.url, producer="p", verifier_keys=[self.server.key()], on_receipt=lambda receipt, text: found.append(receipt))
        for answer in ("one", "two"):
            with ledger.generation(model="m", payload={"q": 1}, run_id="answer/1") as g:
                g.output = answer
        for _ in range(2):
            with ledger.generation(model="m", payload={"q": 1}, run_id="answer/2", timestamp="2026-01-02T03:04:05Z", usage={"duration_ms": 1}) as g:
                g.key = "mine"
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, recorded=4, replayed=1, rejected=0)
        records = [receipt["event"]["record"] for receipt in found]
        self.assertEqual([(r["run_id"], r.get("producer", {}).get("seq"), receipt.get("replayed", False)) for r, receipt in zip(records, found)],
                         [("answer/1", 1, False), ("answer/1", 2, False), ("answer/2", None, False), ("answer/2", None, True)])
        self.assertEqual(len({r["idempotency_key"] for r in records}), 3)

    def test_asks_questions(self):
        ledger = self.open(self.server.url)
        for n, prompt in enumerate(("one", "two", "one")):
            with labels(test="ask"), ledger.generation(model="q", payload={"q": "same"}, system_prompt=prompt, temperature=0, max_tokens=5, seed=3) as g:
                g.output = f"output of {prompt}" + " again" * (n == 2)
            self.assertTrue(ledger.flush(60))
        rows = list(ledger.records(**{"label:test": "ask"}))
        self.assertEqual(len(rows), 3)
        third, second, first = (row["seq"] for row in rows)
        comparison = ledger.compare(first, second)
        self.assertEqual((comparison["cause"], comparison["output_changed"]), ("system_prompt", True))
        self.assertEqual([row["cause"] for row in ledger.timeline(input=hashes.input_hash({"q": "same"}))], [None, "system_prompt", "system_prompt"])
        self.assertEqual(ledger.show(first)["event"]["record"]["labels"], {"test": "ask"})
        self.assertEqual(ledger.compare(first, third)["differences"], [])
        effects = ledger.effects("system_prompt_hash", hashes.system_prompt_hash("one"), hashes.system_prompt_hash("two"))
        self.assertGreaterEqual(effects["changed"], 1)
        self.assertTrue(any(group["runs"] >= 3 for group in ledger.groups("input", min_outputs=2)))
        self.assertEqual([hit["value"] for hit in ledger.search("ask")["rows"] if hit["type"] == "label:test"], ["ask"])
        self.assertEqual(ledger.content(first, "output"), "output of one")
        for run in "a/b", "compare", ".", "..", "ü?":
            ledger.post("ipc_record", record(1, run_id=run))
            self.assertEqual([row["run_id"] for row in ledger.run(run)["rows"]], [run])
        for n in range(101):  # more than a page
            ledger.record("ipc_record", record(n, run_id="long"), key=f"long-{n}")
        self.assertTrue(ledger.flush(60))
        answer = ledger.run("long")
        self.assertEqual((len({row["seq"] for row in answer["rows"]}), answer.get("next")), (101, None))

    def test_sends_only_hashes_if_it_is_told_to(self):
        found = []
        ledger = self.open(self.server.url, hashes_only=True, on_receipt=lambda r, text: found.append(r))
        given = {"model": "m", "payload": {"q": "secret", "seed": 4, "w": 2.0}, "system_prompt": " p ", "output": "o  o", "usage": {"input_tokens": 3, "text": "secret"}}
        ledger.record("ipc_record", given)
        with ledger.generation(**{n: v for n, v in given.items() if n != "output"}) as g:
            g.output = "o  o"
        self.assertTrue(ledger.flush(60))
        for receipt in found:
            self.assertEqual(receipt["hashes"]["input_hash"], hashes.input_hash({"q": "secret", "w": 2.0}))
            self.assertEqual(receipt["hashes"]["output_hash"], hashes.output_hash("o  o"))
            self.assertEqual(receipt["checks"]["output_hash"]["result"], "claimed")
            self.assertNotIn("secret", json.dumps(ledger.show(receipt["seq"])))

    def test_asyncio(self):
        async def main():
            async with Ledger(self.server.url, spool=self.folder(), warn=quiet) as ledger:
                receipt = await ledger.apost("ipc_record", record(1))
                ledger.record("ipc_record", record(2))
                self.assertTrue(await ledger.async_sync())
                self.assertTrue(await ledger.aflush(60))
                self.assertEqual((await ledger.aget(f"/records/{receipt['seq']}"))["seq"], receipt["seq"])
                self.assertGreater(len([row async for row in ledger.arows("/records", limit=1, kind="ipc_record")]), 1)
                self.assertEqual((await ledger.async_(ledger.compare, receipt["seq"], receipt["seq"]))["cause"], "identical")
                return ledger
        self.stats(asyncio.run(main()), recorded=1)


class DownAndKilled(Scratch):
    def setUp(self):
        self.server = Server().start()
        self.addCleanup(self.server.remove)

    def drain(self, spool):
        ledger = self.open(self.server.url, spool=spool)
        eventually(lambda: not segments(spool), "the spool is empty")
        ledger.close()

    def arrived(self, prefix):
        return [run for run in self.server.run_ids() if run and run.startswith(prefix)]

    def test_each_record_arrives_once(self):
        spool = self.folder()
        self.server.stop(signal.SIGKILL)
        killed = run(self.server.url, spool, "killed", "300", "kill")
        synced = int(killed.communicate(timeout=60)[0].split()[1])
        self.assertEqual((killed.returncode, synced), (-signal.SIGKILL, 300))
        # A process that exits while the server is down also leaves its records in the spool.
        left = run(self.server.url, spool, "left", "50", "exit")
        left.communicate(timeout=60)
        self.assertEqual(left.returncode, 3)
        self.server.start()
        ended = run(self.server.url, spool, "ended", "50", "end")
        ended.communicate(timeout=60)
        self.drain(spool)
        runs = self.server.run_ids()
        self.assertEqual(len(set(runs)), len(runs), "each once")
        wanted = {f"killed-{i}" for i in range(300)} | {f"{name}-{i}" for name in ("left", "ended") for i in range(50)}
        self.assertLessEqual(wanted, set(runs))

    def test_children_of_a_fork(self):
        spool = self.folder()
        for ending in "fork", "multiprocessing":
            process = run(self.server.url, spool, ending, "120", ending)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
        self.drain(spool)
        runs = self.server.run_ids()
        self.assertEqual(len(set(runs)), len(runs), "each once")
        wanted = {f"{name}-{i}" for name in ("fork", "fork-parent", "fork-child", "multiprocessing", "multiprocessing-child") for i in range(120)}
        self.assertEqual(set(runs), wanted)

    def test_a_server_that_is_killed_while_it_takes_records(self):
        ledger = self.open(self.server.url, spool=self.folder(), flush_interval=0.005)
        for i in range(3000):
            ledger.record("ipc_record", record(i, run_id=f"r-{i}"))
            if i in (1000, 2000):
                self.server.stop(signal.SIGKILL)
                self.server.start()
        self.assertTrue(ledger.flush(120))
        self.assertEqual(sorted(self.arrived("r-")), sorted(f"r-{i}" for i in range(3000)))


class BadServer(Scratch):
    def test_waits_as_long_as_retry_after_says_and_repeats_lines_with_the_same_key(self):
        server = self.stand_in(lambda lines, n: (503, '{"status":503,"detail":"the disk is full"}', {"Retry-After": "1"}) if n == 1 else accept(lines))
        warnings = []
        ledger = self.open(server.url, warn=warnings.append)
        ledger.record("ipc_record", record(1))
        self.assertTrue(ledger.flush(60))
        self.assertRegex(warnings[0], "503 the disk is full; records wait in .*, next attempt in 1.0 s")
        first, second = server.requests
        self.assertEqual(first["lines"], second["lines"])
        self.assertRegex(json.loads(first["lines"][0])["idempotency_key"], "^[0-9a-f]{40}$")
        self.assertEqual((first["path"], first["headers"]["Content-Type"]), ("/v1/ledgers/default/batch", "application/x-ndjson"))

    def test_reads_retry_after(self):
        self.assertEqual([_retry_after(h) for h in (None, "7", "x", "-1", "9" * 30, "Fri, 02 Jan 2015 03:04:05 GMT", "Fri")], [0, 7, 0, 0, 0, 0, 0])
        self.assertGreater(_retry_after("Fri, 02 Jan 2099 03:04:05 GMT"), 1e9)

    def test_sends_again_only_what_was_not_answered(self):
        def answer(lines, n):
            if n > 1:
                return accept(lines)
            return 200, receipt_of(lines[0]) + '{"status":429,"detail":"too many"}\n' + receipt_of(lines[2]), {}
        server = self.stand_in(answer)
        ledger = self.open(server.url)
        for n in 1, 2, 3:
            ledger.record("ipc_record", record(n), key=f"k{n}")
        self.assertTrue(ledger.flush(60))
        self.assertEqual([[json.loads(line)["idempotency_key"] for line in r["lines"]] for r in server.requests], [["k1", "k2", "k3"], ["k2"]])

    def test_does_not_settle_problems_after_a_line_that_must_wait(self):
        def answer(lines, n):
            if n > 1:
                return accept(lines)
            problems = [json.dumps({"status": status, "detail": "no"}) + "\n" for status in (422, 503, 404, 500)]
            return 200, "".join([*problems[:3], receipt_of(lines[3]), problems[3]]), {}
        server = self.stand_in(answer)
        ledger = self.open(server.url)
        for n in range(5):
            ledger.record("ipc_record", record(n), key=f"k{n}")
        self.assertTrue(ledger.flush(60))
        self.assertEqual([json.loads(line)["idempotency_key"] for line in server.requests[1]["lines"]], ["k1", "k2", "k4"])
        self.stats(ledger, recorded=4, rejected=1)

    def test_continues_after_an_answer_that_breaks_off(self):
        server = self.stand_in(lambda lines, n: (200, receipt_of(lines[0]) + '{"seq": 1, "ev', {}) if n == 1 else None if n == 2 else accept(lines))
        ledger = self.open(server.url)
        for n in range(5):
            ledger.record("ipc_record", record(n), key=f"k{n}")
        self.assertTrue(ledger.flush(60))
        self.assertEqual([len(r["lines"]) for r in server.requests], [5, 4, 4])
        self.stats(ledger, recorded=5, rejected=0)

    def test_a_cursor_keeps_the_progress_for_the_next_process(self):
        server = self.stand_in(lambda lines, n: (200, "".join(map(receipt_of, lines[:3])), {}) if n == 1 else (503, "", {}) if n == 2 else accept(lines))
        spool = self.folder()
        ledger = self.open(server.url, spool=spool)
        for n in range(5):
            ledger.record("ipc_record", record(n), key=f"k{n}")
        eventually(lambda: len(server.requests) >= 2, "two attempts")
        ledger.close(0)
        other = self.open(server.url, spool=spool)
        eventually(lambda: not segments(spool), "sent")
        self.assertEqual([json.loads(line)["idempotency_key"] for line in server.requests[-1]["lines"]], ["k3", "k4"])
        other.close()
        self.assertEqual(os.listdir(spool_folder(spool, server.url, "default")), [])

    def test_splits_a_batch_that_is_too_long_for_a_proxy_and_keeps_a_line_that_is(self):
        def answer(lines, n):
            return accept(lines) if len(lines) <= 2 and not any("text 5" in line for line in lines) else (413, "too long", {})
        server = self.stand_in(answer)
        spool = self.folder()
        ledger = self.open(server.url, spool=spool)
        for n in range(9):
            ledger.record("ipc_record", record(n))
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, recorded=8, rejected=1)
        self.assertIn("text 5", files(spool)[0].read_text())

    def test_refuses_a_line_that_fails_the_server_three_times(self):
        server = self.stand_in(lambda lines, n: (200, "".join('{"status":500,"detail":"bug"}\n' if "text 1" in line else receipt_of(line) for line in lines), {}))
        ledger = self.open(server.url)
        for n in range(3):
            ledger.record("ipc_record", record(n))
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, recorded=2, rejected=1)
        self.assertEqual(len(server.requests), 3)

    def test_keeps_records_while_the_token_is_wrong_and_says_so_once(self):
        allowed, warnings = [], []
        server = self.stand_in(lambda lines, n: accept(lines) if allowed else (401, "", {}))
        ledger = self.open(server.url, token="t", warn=warnings.append)
        ledger.record("ipc_record", record(1))
        eventually(lambda: len(server.requests) > 2, "several attempts")
        self.assertEqual(server.requests[0]["headers"]["Authorization"], "Bearer t")
        allowed.append(True)
        self.assertTrue(ledger.flush(60))
        self.assertEqual(len(warnings), 1)
        self.assertIn("401", warnings[0])

    def test_does_not_wait_longer_than_told(self):
        held = threading.Event()
        self.addCleanup(held.set)
        server = self.stand_in(lambda lines, n: held.wait(60) and None)
        ledger = self.open(server.url, timeout=0.2)
        ledger.record("ipc_record", record(1))
        self.assertFalse(ledger.flush(0.5))
        self.assertFalse(ledger.close(0.5))
        with self.assertRaises(UnreachableError):
            self.open(NOWHERE).get_text("/stats")

    def test_follows_no_redirects(self):
        server = self.stand_in(lambda lines, n: (307, "", {"Location": NOWHERE}))
        with self.assertRaisesRegex(LedgerError, "redirect"):
            self.open(server.url, token="secret").get("/stats")

    def test_does_not_take_the_receipt_of_another_record(self):
        log = Log(Signer("log.example/x", 5)).grow(2)
        server = self.stand_in(lambda lines, n: (200, log.receipt(1) + "\n", {}))
        ledger = self.open(server.url, verifier_keys=log.signer.key)
        ledger.record("ipc_record", record(1))
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, unverified=1)

    def test_ignores_what_a_callback_or_a_logger_raises(self):
        def fail(*args):
            raise RuntimeError("mine")
        server = self.stand_in(accept)
        ledger = self.open(server.url, on_receipt=fail, warn=fail)
        ledger.record("ipc_record", record(1))
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, recorded=1)

    def test_repeats_a_request_on_a_connection_that_the_server_has_closed(self):
        server = self.stand_in(lambda lines, n: None if n == 2 else (200, "{}", {}))
        ledger = self.open(server.url)
        self.assertEqual([ledger.get("/stats") for _ in range(2)], [{}, {}])
        self.assertEqual(len(server.requests), 3)


class Color(enum.Enum):
    RED = "red"


class Model:
    """The shape of a pydantic model."""

    def model_dump(self, **how):
        return {"dumped": how}


@dataclasses.dataclass
class Point:
    x: int


class Hostile(Scratch):
    def test_well_known_types(self):
        got = []
        server = self.stand_in(lambda lines, n: (got.extend(lines), accept(lines))[1])
        ledger = self.open(server.url)
        when = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
        given = {"e": Color.RED, "p": Point(1), "d": when, "s": {3}, "t": (1, 2), "b": b"ab", "m": Model(), "u": uuid.UUID(int=1),
                 "n": decimal.Decimal("1.5"), "f": pathlib.PurePosixPath("/x"), "big": 10**40, 1: None}
        self.assertTrue(ledger.record("ipc_record", {"model": "m", "payload": given}))
        self.assertTrue(ledger.flush(60))
        self.assertEqual(json.loads(got[0])["record"]["payload"], {
            "e": "red", "p": {"x": 1}, "d": "2026-01-02T00:00:00+00:00", "s": [3], "t": [1, 2], "b": "YWI=", "m": {"dumped": {"mode": "json", "warnings": False}},
            "u": "00000000-0000-0000-0000-000000000001", "n": 1.5, "f": "/x", "big": 10**40, "1": None})

    def test_what_is_not_json_is_refused_and_named(self):
        warnings = []
        ledger = self.open(NOWHERE, warn=warnings.append)
        loop = {}
        loop["self"] = loop
        deep = []
        for _ in range(100_000):
            deep = [deep]

        class Rude(dict):
            def items(self):
                raise KeyError("mine")

        for bad in ({"o": object()}, loop, {"d": deep}):
            self.assertFalse(ledger.record("ipc_record", {"model": "m", "payload": bad}))
        self.stats(ledger, invalid=3, accepted=0)
        self.assertIn("/payload/o: a value of the type builtins.object is not JSON", warnings[0])
        # A payload that can be copied is checked in the background.
        found = []
        ledger = self.open(NOWHERE, warn=found.append)
        for bad in ({"n": [1, float("nan")]}, {"n": [float("inf")]}, {(1, 2): 3}, {"c": 1j}, {"i": 10**5000}):
            self.assertTrue(ledger.record("ipc_record", {"model": "m", "payload": bad}))
        self.assertTrue(ledger.record("ipc_record", {"model": "m", "payload": {}}))
        self.assertTrue(ledger.sync(60))
        self.stats(ledger, invalid=5, accepted=6, spooled=1, queued=0)
        self.assertIn("a record of kind ipc_record is not JSON: /payload/n/1: ", found[0])
        # A generation accepts any payload, because the caller does not choose what a library passes.
        server = self.stand_in(accept)
        ledger = self.open(server.url)
        for bad in ({"n": float("nan")}, {"o": object()}, loop, {"d": deep}, {(1, 2): 3}, {"i": 10**5000}, Rude()):
            with ledger.generation(model="m", payload=bad) as g:
                g.output = "x"
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, invalid=0, recorded=7)
        payloads = [json.loads(line)["record"]["payload"] for r in server.requests for line in r["lines"]]
        self.assertEqual(payloads[:2], [{"n": None}, {"o": "<builtins.object>"}])

    def test_lone_surrogates(self):
        got = []
        server = self.stand_in(lambda lines, n: (got.extend(lines), accept(lines))[1])
        ledger = self.open(server.url)
        ledger.record("ipc_record", record(1, output="a\ud800b", labels={"\udfff": "x"}))
        ledger.record("run_dag", {"answer_text": "a\ud800b"})
        with ledger.generation(model="m", payload={"q": "\udc00"}) as g:
            g.output = "fine"
        self.assertTrue(ledger.flush(60))
        first, second, third = (json.loads(line)["record"] for line in got)
        self.assertEqual((first["output"], first["labels"], second["answer_text"], third["payload"]["q"]), ("a\ufffdb", {"\ufffd": "x"}, "a\ud800b", "\ufffd"))
        self.stats(ledger, repaired=2, recorded=3)

    def test_lone_surrogates_with_hashes_only(self):
        got = []
        server = self.stand_in(lambda lines, n: (got.extend(lines), accept(lines))[1])
        ledger = self.open(server.url, hashes_only=True)
        given = {"model": "m", "payload": {"q": "\ud800", "seed": 4}, "system_prompt": "p", "usage": {"input_tokens": 3, "\udc00": 1.5}}
        ledger.record("ipc_record", {**given, "output": "a\ud83d"})
        with ledger.generation(**given) as g:
            g.output = "a\ud83d"
        self.assertTrue(ledger.flush(60))
        for sent in (json.loads(line)["record"] for line in got):
            self.assertEqual((sent["input_hash"], sent["output_hash"], sent["seed"]), (hashes.input_hash({"q": "\ufffd"}), hashes.output_hash("a\ufffd"), 4))
            self.assertEqual((sent["usage"]["input_tokens"], sent["usage"]["\ufffd"]), (3, 1.5))
        self.stats(ledger, repaired=2, recorded=2)

    def test_a_full_queue(self):
        warnings = []
        ledger = self.open(NOWHERE, max_queue_bytes=3000, flush_interval=60, warn=warnings.append)
        taken = 0
        while ledger.record("ipc_record", record(taken)):
            taken += 1
        self.assertTrue(3 < taken < 40)
        self.stats(ledger, dropped=1, accepted=taken)
        self.assertTrue(ledger.sync(60))
        self.assertEqual(ledger.stats().queued, 0)
        self.assertTrue(ledger.record("ipc_record", record(1, output="x" * 100_000)), "a record that alone is larger than the queue is taken")
        self.assertEqual(sum("queue is full" in w for w in warnings), 1)

    def test_a_full_spool_holds_records_in_memory_until_there_is_room(self):
        open_for = []
        server = self.stand_in(lambda lines, n: accept(lines) if open_for else (503, "", {}))
        warnings, spool = [], self.folder()
        ledger = self.open(server.url, spool=spool, max_spool_bytes=2000, warn=warnings.append, flush_interval=0.01)
        for n in range(30):
            self.assertTrue(ledger.record("ipc_record", record(n, run_id=f"r{n}")))
            ledger.sync(0.05)
        self.assertFalse(ledger.sync(0))
        self.assertLessEqual(sum(p.stat().st_size for p in segments(spool)), 2000)
        self.assertTrue(any("2000" in w for w in warnings))
        open_for.append(True)
        self.assertTrue(ledger.flush(60))
        sent = [json.loads(line)["record"]["run_id"] for r in server.requests for line in r["lines"]]
        self.assertEqual(set(sent), {f"r{n}" for n in range(30)})
        self.stats(ledger, recorded=30, dropped=0)

    def test_a_disk_that_fails_holds_records_in_memory(self):
        from unittest import mock
        server, spool = self.stand_in(accept), self.folder()
        ledger = self.open(server.url, spool=spool, flush_interval=0.01)
        write = os.write
        full = [True]

        def failing(fd, data):
            if full and len(data) > 40:
                write(fd, bytes(data)[:40])  # the beginning of a line
                raise OSError(28, "No space left on device")
            return write(fd, data)

        with mock.patch("os.write", failing):
            ledger.record("ipc_record", record(1))
            self.assertFalse(ledger.sync(0.3))
            full.clear()
            self.assertTrue(ledger.flush(60))
        self.assertEqual([len(r["lines"]) for r in server.requests], [1])
        self.stats(ledger, recorded=1, dropped=0, rejected=0)
        self.assertEqual(segments(spool), [])

    def test_a_segment_that_cannot_be_read_stays_and_does_not_stop_others(self):
        server, spool, warnings = self.stand_in(accept), self.folder(), []
        place = pathlib.Path(spool_folder(spool, server.url, "default"))
        (place / f"python-{1:015d}-{'ab' * 8}-000001.ndjson").mkdir(parents=True)  # even root cannot read it as a file
        ledger = self.open(server.url, spool=spool, warn=warnings.append)
        for n in range(2):
            ledger.record("ipc_record", record(n))
            self.assertTrue(ledger.flush(60))
        self.stats(ledger, recorded=2)
        [kept] = segments(spool)
        self.assertEqual([f"{kept.name} in {place} cannot be read" in w for w in warnings], [True], "one warning")
        kept.rmdir()
        kept.write_text('{"kind":"ipc_record","record":{"model":"m"}}\n')
        eventually(lambda: ledger.stats().recorded == 3, "the segment is tried again")

    def test_a_folder_that_cannot_be_used(self):
        file = os.path.join(self.folder(), "file")
        pathlib.Path(file).write_text("")
        with self.assertRaisesRegex(SpoolError, "COLOPHON_SPOOL"):
            Ledger(NOWHERE, spool=file)
        if os.geteuid() != 0:
            folder = self.folder()
            os.chmod(folder, 0o500)
            with self.assertRaises(SpoolError):
                Ledger(NOWHERE, spool=folder)

    def test_a_folder_that_is_deleted_loses_nothing_that_comes_later(self):
        server, spool = self.stand_in(accept), self.folder()
        ledger = self.open(NOWHERE, spool=spool)
        ledger.record("ipc_record", record(1))
        self.assertTrue(ledger.sync(60))
        shutil.rmtree(spool)
        ledger.record("ipc_record", record(2))
        self.assertTrue(ledger.sync(60))
        self.assertIn("text 2", segments(spool)[-1].read_text())

    def test_threads(self):
        server = self.stand_in(accept)
        ledger = self.open(server.url)

        def work(name):
            for i in range(200):
                ledger.record("ipc_record", record(i, run_id=f"{name}-{i}"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(ledger.flush(60))
        sent = [json.loads(line)["record"]["run_id"] for r in server.requests for line in r["lines"]]
        self.assertEqual(sorted(sent), sorted(f"{n}-{i}" for n in range(8) for i in range(200)))

    def test_a_record_that_another_thread_changes(self):
        ledger = self.open(NOWHERE)
        shared, stop = {str(i): i for i in range(2000)}, threading.Event()

        def change():
            n = 0
            while not stop.is_set():
                shared[f"x{n % 500}"] = n
                shared.pop(f"x{(n + 250) % 500}", None)
                n += 1

        thread = threading.Thread(target=change)
        thread.start()
        try:
            results = [ledger.record("ipc_record", {"model": "m", "payload": shared}) for _ in range(50)]
        finally:
            stop.set()
            thread.join()
        found = ledger.stats()
        self.assertEqual((results.count(True), results.count(False)), (found.accepted, found.invalid))

    def test_signal_handlers_and_finalizers(self):
        server = self.stand_in(accept)
        ledger = self.open(server.url, flush_interval=0.001)
        count = [0]

        def recording(*_):
            count[0] += 1
            ledger.record("ipc_record", record(count[0], labels={"from": "elsewhere"}))

        class Finalized:
            def __init__(self):
                self.me = self  # only the collector can free it

            def __del__(self):
                recording()

        before = signal.signal(signal.SIGALRM, recording)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            for i in range(1500):
                Finalized()
                ledger.record("ipc_record", record(i))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        gc.collect()
        self.assertTrue(ledger.flush(60))
        self.stats(ledger, accepted=1500 + count[0], recorded=1500 + count[0])
        self.assertGreaterEqual(count[0], 1500)

    def test_a_record_after_the_end_goes_to_the_spool(self):
        spool = self.folder()
        ledger = self.open(NOWHERE, spool=spool)
        ledger.close(0)
        self.assertTrue(ledger.flush(), "everything is answered")
        self.assertTrue(ledger.record("ipc_record", record(7)))
        self.assertIn("text 7", segments(spool)[0].read_text())
        self.assertFalse(ledger.flush(), "it does not wait, because nothing sends the record")

    def test_a_refused_line_stays_as_it_is(self):
        spool = Spool(os.path.join(self.folder(), "s"), 1 << 20)
        self.addCleanup(spool.close)
        line = '{"kind":"note","record":{"n":1e5,"m":-0.0,"i":123456789012345678901234567890,"t":"ü"}}'
        for text in line, "torn":
            self.assertTrue(spool.reject(text.encode(), 422, "no"))
        first, second = files(spool.folder)[0].read_text(encoding="utf-8").splitlines()
        self.assertTrue(first.endswith(f'"line": {line}}}'), first)
        self.assertEqual((json.loads(first)["reason"], json.loads(second)["line"]), ("no", "torn"))

    def test_the_end_of_the_interpreter(self):
        server, spool = self.stand_in(accept), self.folder()
        code = """
import atexit, sys
atexit.register(lambda: ledger.record("ipc_record", {"model": "m", "payload": {"n": "registered before"}}))
from colophon import Ledger
ledger = Ledger(sys.argv[1], spool=sys.argv[2], flush_interval=60)
class Late:
    def __del__(self):
        ledger.record("ipc_record", {"model": "m", "payload": {"n": "in a finalizer"}})
late = Late()
ledger.record("ipc_record", {"model": "m", "payload": {"n": "before the end"}})
"""
        done = run_python(code, server.url, spool)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([json.loads(line)["record"]["payload"]["n"] for r in server.requests for line in r["lines"]], ["before the end"])
        texts = "".join(p.read_text() for p in segments(spool))
        self.assertIn("registered before", texts)
        self.assertIn("in a finalizer", texts)

    def test_an_exception_ends_the_process_but_not_the_records(self):
        server, spool = self.stand_in(accept), self.folder()
        code = "import sys; from colophon import Ledger; Ledger(sys.argv[1], spool=sys.argv[2]).record('ipc_record', {'model': 'm'}); raise KeyboardInterrupt"
        done = run_python(code, server.url, spool)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(sum(len(r["lines"]) for r in server.requests), 1)

    def test_a_clock_that_is_set_back(self):
        from unittest import mock
        spool = Spool(os.path.join(self.folder(), "s"), 1 << 20)
        names = []
        for at in 5_000_000_000, 1_000_000_000, 6_000_000_000:
            with mock.patch("time.time_ns", lambda at=at: at):
                names.append(spool.append([b"{}"]))
                spool._seal()
        self.assertEqual(names, sorted(names))
        spool.close()


class Generations(Scratch):
    def setUp(self):
        self.sent = []
        self.server = self.stand_in(lambda lines, n: (self.sent.extend(json.loads(line)["record"] for line in lines), accept(lines))[1])
        self.ledger = self.open(self.server.url)

    def records(self):
        self.assertTrue(self.ledger.flush(60))
        self.stats(self.ledger, invalid=0)
        return self.sent

    def test_context_manager(self):
        messages = [{"role": "user", "content": "hi"}]
        with labels(conversation="c1"), self.ledger.generation(model="m", payload={"messages": messages}, system_prompt="p", labels={"x": "y"}) as g:
            messages.append({"role": "assistant", "content": "later"})
            g.output = "an answer"
            g.set(max_tokens=5, labels={"more": "é" * 100})
        with self.assertRaises(ZeroDivisionError), self.ledger.generation(model="m", payload={"q": 2}):
            1 / 0
        first, second = self.records()
        self.assertEqual((first["output"], first["payload"], first["max_tokens"]), ("an answer", {"messages": messages[:1]}, 5))
        self.assertEqual(first["labels"], {"conversation": "c1", "x": "y", "more": "é" * 64})
        self.assertGreaterEqual(first["usage"]["duration_ms"], 0)
        self.assertEqual((second.get("output"), second["labels"]), (None, {"error": "ZeroDivisionError"}))

    def test_decorator(self):
        @self.ledger.recorded(model="m", system_prompt="p")
        def answer(question, *, style="plain"):
            """Says it."""
            if question == "bad":
                raise ValueError(question)
            return f"{style} {question}"

        self.assertEqual((answer("q"), answer.__doc__, answer.__name__), ("plain q", "Says it.", "answer"))
        with self.assertRaises(ValueError):
            answer("bad")
        with self.assertRaises(TypeError):
            answer(1, 2, 3)
        ok, bad, wrong = self.records()
        self.assertEqual((ok["output"], ok["payload"], ok["system_prompt"]), ("plain q", {"question": "q", "style": "plain"}, "p"))
        self.assertEqual((bad["labels"]["error"], wrong["labels"]["error"]), ("ValueError", "TypeError"))

    def test_decorated_conditions(self):
        @self.ledger.recorded(model="m")
        def answer(question, system_prompt, model="small-1", temperature=0.7, max_tokens=None, seed=None, stream=False):
            return question.upper()

        answer("q", "be brief", seed=3)
        answer("q", object, temperature=True)
        first, second = self.records()
        self.assertEqual((first["system_prompt"], first["temperature"], first["seed"], first["model"]), ("be brief", 0.7, 3, "m"))
        self.assertEqual(first["payload"], {"question": "q", "model": "small-1", "max_tokens": None, "stream": False})
        self.assertEqual((second.get("temperature"), second["payload"]["temperature"]), (None, True))

    def test_decorated_chats(self):
        @self.ledger.recorded()
        def chat(messages, model, temperature=0.5):
            return messages[-1]["content"]

        system, question = {"role": "system", "content": "be brief"}, {"role": "user", "content": "q"}
        chat([system, {"role": "developer", "content": [{"type": "text", "text": "no lists"}]}, question, system], "m")
        chat([question, system], "m")
        chat((system, question), "m")
        first, second, third = self.records()
        self.assertEqual((first["system_prompt"], first["payload"]), ("be brief\n\nno lists", {"messages": [question, system]}))
        self.assertEqual((second.get("system_prompt"), second["payload"]), (None, {"messages": [question, system]}))
        self.assertEqual((third.get("system_prompt"), third["payload"]["messages"]), (None, [system, question]))

    def test_decorated_generators(self):
        @self.ledger.recorded(model="m")
        def words(text):
            for word in text.split():
                got = yield word
                if got:
                    yield got
            return "returned"

        self.assertEqual(list(words("a b")), ["a", "b"])
        for _ in words("c d"):
            break
        gc.collect()
        words("never read")
        with self.assertRaises(AttributeError):
            list(words(None))
        conversation = words("e f")
        self.assertEqual([next(conversation), conversation.send("sent"), next(conversation)], ["e", "sent", "f"])
        conversation.close()
        whole, left, failed, talked = self.records()
        self.assertEqual((whole["output"], whole.get("labels")), ("ab", None))
        self.assertEqual((left["output"], left["labels"]), ("c", {"stream": "interrupted"}))
        self.assertEqual((failed.get("output"), failed["labels"]), (None, {"error": "AttributeError"}))
        self.assertEqual(talked["output"], "esentf")

    def test_asyncio(self):
        @self.ledger.recorded(model="m")
        async def answer(q):
            await asyncio.sleep(0)
            return q.upper()

        @self.ledger.recorded(model="m")
        async def words(text):
            for word in text.split():
                yield word

        async def main():
            self.assertEqual(await answer("a"), "A")
            self.assertEqual([w async for w in words("b c")], ["b", "c"])
            async with self.ledger.generation(model="m", payload={}) as g:
                g.output = "D"
            task = asyncio.create_task(answer_slowly())
            await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            with labels(outer="1"):
                await asyncio.gather(labelled("x"), labelled("y"))

        @self.ledger.recorded(model="m", payload={})
        async def answer_slowly():
            await asyncio.sleep(60)

        async def labelled(name):
            with labels(inner=name):
                await asyncio.sleep(0)
                await answer(name)

        asyncio.run(main())
        found = self.records()
        self.assertEqual([r.get("output") for r in found[:3]], ["A", "bc", "D"])
        self.assertEqual(found[3]["labels"], {"error": "CancelledError"})
        self.assertEqual(sorted((r["output"], r["labels"]["inner"], r["labels"]["outer"]) for r in found[4:]), [("X", "x", "1"), ("Y", "y", "1")])

    def test_without_a_model_and_with_too_many_labels(self):
        with self.ledger.generation(labels={f"n{i}": str(i) for i in range(40)}) as g:
            g.labels[""] = "no name"
        self.assertEqual((self.records()[0]["model"], self.sent[0]["payload"], len(self.sent[0]["labels"])), ("unknown", {}, 32))


class TheSpool(Scratch):
    def spool(self, folder, size=1 << 20):
        spool = Spool(folder, size)
        self.addCleanup(spool.close)
        return spool

    def test_keeps_what_was_appended_and_leaves_out_a_torn_line(self):
        place = os.path.join(self.folder(), "s")
        spool = self.spool(place)
        spool.append([b"a", b"b"])
        spool.append([b"c"])
        spool.close()
        [path] = segments(place)
        self.assertEqual((stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(os.stat(place).st_mode)), (0o600, 0o700))
        path.write_bytes(b"a\nb\nc\ntor")
        following = self.spool(place)
        segment = following.take()
        self.assertEqual([line.text for line in segment.lines()], [b"a", b"b", b"c"])
        self.assertIsNone(following.take())
        segment.advance(2)
        segment.release()
        again = following.take()
        self.assertEqual([line.text for line in again.lines()], [b"b", b"c"])
        again.remove()
        self.assertEqual(following.bytes(), 0)
        following.close()
        self.assertEqual(os.listdir(place), [])

    def test_gives_a_segment_to_one_of_several_and_none_of_a_living_one(self):
        place = os.path.join(self.folder(), "s")
        living, dead = self.spool(place), self.spool(place)
        living.append([b"mine"])
        for i in range(20):
            dead.append_now([b"line %d" % i])
        dead.close()
        takers, taken = [self.spool(place) for _ in range(4)], []

        def work(spool):
            while segment := spool.take():
                taken.extend(line.text for line in segment.lines())
                segment.remove()

        threads = [threading.Thread(target=work, args=(spool,)) for spool in takers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(taken), sorted(b"line %d" % i for i in range(20)))
        self.assertEqual([line.text for line in living.take().lines()], [b"mine"])

    def test_a_lock_outlives_no_process(self):
        place = os.path.join(self.folder(), "s")
        code = "import sys, os, signal; from colophon._spool import Spool; s = Spool(sys.argv[1], 1 << 20); s.append([b'{}']); os.kill(os.getpid(), signal.SIGKILL)"
        run_python(code, place)
        [lock] = files(place, ".lock")
        fd = os.open(lock, os.O_RDWR)
        self.addCleanup(os.close, fd)
        self.assertTrue(_try_lock(fd))

    def test_says_when_it_is_full(self):
        spool = self.spool(os.path.join(self.folder(), "s"), 100)
        spool.append([b"x" * 80])
        with self.assertRaises(SpoolFullError):
            spool.append([b"y" * 80])
        spool.take().remove()
        spool.append([b"y" * 80])

    def test_seals_segments_and_bounds_refused_records(self):
        from unittest import mock
        spool = self.spool(os.path.join(self.folder(), "s"), 1 << 30)
        names = {spool.append([b"x" * (3 << 20)]) for _ in range(4)}
        self.assertEqual(len(names), 2)
        with mock.patch("colophon._spool.MAX_REJECTED_BYTES", 500):
            self.assertTrue(spool.reject(b'{"a":1}', 422, "no"))
            self.assertFalse(spool.reject(b"x" * 500, 422, "no"))
        self.assertEqual(len(files(spool.folder)), 3)

    def test_the_names_are_those_of_the_typescript_client(self):
        self.assertEqual(spool_folder("/s", "http://127.0.0.1:8080", "my notes"), "/s/127.0.0.1-8080-my-notes-"
                         + __import__("hashlib").sha256(b"http://127.0.0.1:8080\0my notes").hexdigest()[:8])


class Arguments(unittest.TestCase):
    def test_urls(self):
        for url, ledger in (("ftp://x", None), ("http://u:p@x", None), ("http://x/?a=b", None), ("http://x/v1/ledgers/a", "b"), ("x", None), ("http://x:99999", None)):
            with self.assertRaises(ValueError, msg=url):
                split_url(url, ledger)
        self.assertEqual(split_url("https://X:443/prefix/v1/ledgers/my%20notes/", None), ("https://x/prefix", "my notes"))
        self.assertEqual(split_url("http://[::1]:8080/", "n"), ("http://[::1]:8080", "n"))

    def test_the_sources_are_python_3_10(self):
        import ast
        found = [*SOURCES.rglob("*.py"), *pathlib.Path(__file__).parents[1].joinpath("build_backend").glob("*.py")]
        self.assertGreater(len(found), 10)
        for path in found:
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))

    def test_the_code_in_the_readme_is_python(self):
        import ast
        import re
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", pathlib.Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8"))
        self.assertGreater(len(blocks), 4)
        for block in blocks:
            ast.parse(block)

    def test_everything_public_is_there(self):
        for name in colophon.__all__:
            self.assertTrue(hasattr(colophon, name))


if __name__ == "__main__":
    unittest.main()
