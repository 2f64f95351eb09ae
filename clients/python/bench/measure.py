#!/usr/bin/env python3
"""Measures what recording costs the thread that records, and that nothing is lost while the ledger is down and the process is killed.

    make build && PYTHONPATH=src python3 bench/measure.py [calls] [lost]

calls: the time of one call, against a real server, a ledger that is down, and a call of nothing. It prints percentiles in µs.
lost:  a process records at --rate for --seconds while the ledger is down, and is killed at half of the time and started again. Then
       the ledger starts. Every record whose call had returned before the last flush to the spool must be there, once.

COLOPHON_BINARY names the program; the default is bin/colophon."""

from __future__ import annotations

import argparse
import collections
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from colophon import Ledger, wrap
from tests.support.server import Server, environment
from tests.support.shapes import Resource, completion

DOWN = "http://127.0.0.1:1"


def a_record(n: int) -> dict:
    """An IPC record of about 1.5 KB."""
    words = random.Random(n)
    text = " ".join(words.choices("tide quay keeper lamp harbour rope signal dawn salt gull".split(), k=100))
    return {"model": "gemma2:2b", "payload": {"messages": [{"role": "user", "content": text}], "top_p": 0.9}, "system_prompt": text[:300],
            "output": text[::-1][:500], "temperature": 0.2, "max_tokens": 200, "seed": 7, "labels": {"service": "bench"}}


def percentiles(call, times: int, rate: float) -> str:
    """Calls at a rate, as a service does, and returns the percentiles of the calls."""
    spans = []
    next_at = time.perf_counter()
    for n in range(times):
        argument = a_record(n)
        next_at = max(next_at + 1 / rate, time.perf_counter() - 1)
        if (left := next_at - time.perf_counter()) > 0:
            time.sleep(left)
        begun = time.perf_counter_ns()
        call(argument)
        spans.append((time.perf_counter_ns() - begun) / 1000)
    spans.sort()
    return "  ".join(f"p{p:g} {spans[min(times - 1, int(times * p / 100))]:7.1f}" for p in (50, 90, 99, 99.9))


def calls(times: int, rate: float) -> None:
    with tempfile.TemporaryDirectory() as spool:
        server = Server().start()
        print(f"µs of one call, {times} calls at {rate:g} a second, records of {len(json.dumps(a_record(0)))} bytes")
        print("nothing                         ", percentiles(lambda r: None, times, rate))
        for what, url in ("record, ledger up               ", server.url), ("record, ledger down             ", DOWN):
            with Ledger(url, spool=spool, warn=lambda m: None, exit_timeout=30) as ledger:
                print(what, percentiles(lambda r: ledger.record("ipc_record", r), times, rate))
        with Ledger(server.url, spool=spool, verifier_keys=server.key(), warn=lambda m: None, exit_timeout=30) as ledger:
            print("record, every receipt verified  ", percentiles(lambda r: ledger.record("ipc_record", r), times, rate))
        with Ledger(server.url, spool=spool, warn=lambda m: None, exit_timeout=30) as ledger:
            def generate(r):
                with ledger.generation(**{n: v for n, v in r.items() if n != "output"}) as g:
                    g.output = r["output"]
            print("generation                      ", percentiles(generate, times, rate))
            answer = completion("The keeper.")
            inner = Resource(chat=Resource(completions=Resource(create=lambda **request: answer)))
            client = wrap(inner, ledger)
            print("wrapped call of nothing         ", percentiles(lambda r: client.chat.completions.create(model=r["model"], temperature=0.2, **r["payload"]), times, rate))
            flushed, stats = ledger.flush(120), ledger.stats()
        assert flushed and stats.rejected == stats.dropped == stats.invalid == 0, stats
        server.remove()


def service(url: str, spool: str, name: str, rate: float, seconds: float) -> None:
    """Records at a rate. It prints, after each flush to the spool, how many calls had returned before that flush began."""
    ledger = Ledger(url, spool=spool, warn=lambda m: None)
    begun, n, flushed_at = time.monotonic(), 0, 0.0
    while time.monotonic() - begun < seconds:
        while n < (time.monotonic() - begun) * rate:
            assert ledger.record("ipc_record", {**a_record(n), "labels": {"service": "bench", "n": f"{name}-{n}"}})
            n += 1
        if ledger.stats().spooled > flushed_at:
            flushed_at = ledger.stats().spooled
            print(flushed_at, flush=True)
        time.sleep(0.002)
    ledger.sync()
    print(ledger.stats().spooled, flush=True)
    ledger.close(0)


def lost(rate: float, seconds: float) -> None:
    server = Server().start()
    server.stop(signal.SIGKILL)
    with tempfile.TemporaryDirectory() as spool:
        due = {}
        for name in "first", "second":
            child = subprocess.Popen([sys.executable, __file__, "service", "--url", server.url, "--spool", spool, "--name", name, "--rate", str(rate),
                                      "--seconds", str(seconds if name == "first" else seconds / 2)], env=environment(), stdout=subprocess.PIPE, text=True)
            last, begun = 0, time.monotonic()
            for line in child.stdout:
                last = int(line)
                if name == "first" and time.monotonic() - begun > seconds / 2:
                    child.kill()
                    break
            last = max([last, *map(int, child.stdout.read().split())])
            child.wait()
            due[name] = last
            print(f"{name} process: {last} records were flushed to the spool; it ended with {child.returncode}")
        waiting = sum(p.stat().st_size for p in Path(spool).rglob("*.ndjson"))
        print(f"{waiting / 1e6:.1f} MB wait in the spool; the ledger starts")
        server.start()
        begun = time.monotonic()
        with Ledger(server.url, spool=spool) as ledger:
            while any(Path(spool).rglob("python-*.ndjson")):
                time.sleep(0.05)
            print(f"the spool was empty after {time.monotonic() - begun:.1f} s: {ledger.stats()}")
        found = collections.Counter(row["event"]["record"]["labels"]["n"] for row in server.records())
        missing = [f"{name}-{n}" for name, count in due.items() for n in range(count) if f"{name}-{n}" not in found]
        twice = [name for name, count in found.items() if count > 1]
        print(f"{sum(due.values())} due, {len(found)} arrived, {len(missing)} missing, {len(twice)} twice")
        server.remove()
        if missing or twice:
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["calls", "lost"], choices=["calls", "lost", "service"])
    parser.add_argument("--times", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=500, help="records a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long the ledger is down")
    for name in "url", "spool", "name":
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for what in given.what:
        if what == "calls":
            calls(given.times, given.rate)
        elif what == "lost":
            lost(given.rate, given.seconds)
        else:
            service(given.url, given.spool, given.name, given.rate, given.seconds)


if __name__ == "__main__":
    main()
