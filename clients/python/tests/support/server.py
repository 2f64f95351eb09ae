"""A real server, built from this tree, and a stand-in for a ledger that answers as a test prescribes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SOURCES = ROOT / "clients/python/src"


def binary() -> str:
    """Returns the path of the program: COLOPHON_BINARY or, if it is not set, bin/colophon, which is built if it is missing."""
    program = os.environ.get("COLOPHON_BINARY") or str(ROOT / "bin/colophon")
    if not os.path.exists(program):
        subprocess.run(["go", "build", "-trimpath", "-o", program, "./cmd/colophon"], cwd=ROOT, check=True)
    return program


def environment(**more: str) -> dict[str, str]:
    """Returns the environment variables for a child process that imports the client."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COLOPHON_")}
    return {**clean, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1", **more}


class Server:
    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="colophon-py-")
        self.port = 0

    def start(self, *flags: str) -> Server:
        command = [binary(), "serve", "--data", os.path.join(self.folder, "data"), "--listen", f"127.0.0.1:{self.port}", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = ""
        for line in self.process.stdout:
            output += line
            found = re.search(r"server\s+(http:\S+)", output)
            if found and "verifier key" in output:
                self.url = found[1]
                break
        else:
            raise AssertionError(f"the server exited: {output}")
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))
        self.url = self.url.rstrip("/")
        self.ledger = f"{self.url}/v1/ledgers/default"
        return self

    def stop(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def remove(self) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def text(self, path: str, **headers: str) -> str:
        with urllib.request.urlopen(urllib.request.Request(self.ledger + path, headers=headers), timeout=60) as answer:
            return answer.read().decode()

    def get(self, path: str):
        return json.loads(self.text(path))

    def key(self) -> str:
        return self.get("/log/key")["verifier_key"]

    def records(self) -> list[dict]:
        """Returns all IPC records, with their events."""
        rows, cursor = [], ""
        while True:
            page = self.get(f"/records?kind=ipc_record&events=true&limit=1000{cursor}")
            rows += page["rows"]
            if not page.get("next"):
                return rows
            cursor = "&cursor=" + urllib.request.quote(page["next"], safe="")

    def run_ids(self) -> list[str]:
        return [row["event"]["record"].get("run_id") for row in self.records()]


class StandIn:
    """A stand-in for a ledger that answers as a test prescribes, and keeps the requests.

    answer(lines, number) returns the status, the body, and the headers of the response to request number, or None to close the connection."""

    def __init__(self, answer) -> None:
        self.requests: list[dict] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                lines = [line for line in body.split("\n") if line]
                outer.requests.append({"path": self.path, "headers": dict(self.headers), "lines": lines, "at": time.monotonic()})
                answered = answer(lines, len(outer.requests))
                if answered is None:
                    self.close_connection = True
                    return
                status, text, headers = answered
                data = text.encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *args) -> None:
                pass

        class Threads(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

            def handle_error(self, request, client_address) -> None:
                pass

        self._server = Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


_numbers = iter(range(10**9))


def receipt_of(line: str) -> str:
    """Returns a minimal receipt for a line."""
    return json.dumps({"ledger": "default", "seq": next(_numbers), "kind": json.loads(line)["kind"], "time": "2026-01-02T03:04:05.000000Z",
                       "event_hash": "ab" * 32, "hashes": {}, "checks": {}}) + "\n"


def accept(lines, number=0):
    return 200, "".join(receipt_of(line) for line in lines), {}


def eventually(condition, what: str) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"did not happen: {what}")


def run_python(code: str, *args: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *args], env=environment(**variables), capture_output=True, text=True, timeout=120)
