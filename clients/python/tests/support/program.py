"""A service that records in its own process. Usage: program.py URL SPOOL NAME COUNT kill|exit|end|fork|multiprocessing"""

import multiprocessing
import os
import signal
import sys
import time

from colophon import Ledger


def main() -> None:
    url, spool, name, count, ending = sys.argv[1:6]
    ledger = Ledger(url, spool=spool, flush_interval=0.02, exit_timeout=5, warn=lambda message: None)

    def record(name: str, count: int) -> None:
        for i in range(count):
            ledger.record("ipc_record", {"model": "m", "payload": {"i": i}, "output": f"{name} {i}", "run_id": f"{name}-{i}"})
            if i % 100 == 99:
                time.sleep(0.005)

    record(name, int(count))
    if ending == "kill":
        ledger.sync()
        print("synced", ledger.stats().spooled, flush=True)
        record(f"{name}-after", 50)  # may be lost, but must not arrive twice or in parts
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "fork":
        child = os.fork()
        record(f"{name}-{'parent' if child else 'child'}", int(count))
        if child == 0:
            sys.exit(0)  # runs atexit
        os.waitpid(child, 0)
    if ending == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=record, args=(f"{name}-child", int(count)))
        process.start()
        process.join()
    if ending == "exit":
        sys.exit(3)


if __name__ == "__main__":
    main()
