"""Runs the examples as a new user would: start the service, ask, change the prompt, ask again, and see in drift what the change did."""

import json
import os
import re
import subprocess
import sys
import unittest
import urllib.request

from .support.server import ROOT, Server, binary, environment
from .test_client import Scratch

EXAMPLES = ROOT / "clients/python/examples"
QUESTIONS = ["What is a ledger?", "Who keeps it?", "Why sign it?", "How long is it kept?", "Where does it end?"]


class Examples(Scratch):
    def setUp(self):
        self.server = Server().start()
        self.addCleanup(self.server.remove)

    def ask(self, file, spool, **variables):
        """Starts a service, asks it all QUESTIONS, and interrupts it as Ctrl-C does. Returns the answers."""
        given = environment(PORT="0", COLOPHON_SERVER=self.server.url, COLOPHON_SPOOL=spool, **variables)
        service = subprocess.Popen([sys.executable, EXAMPLES / file], env=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = re.search(r"\d+", service.stdout.readline())[0]
            answers = []
            for question in QUESTIONS:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", question.encode(), timeout=60) as answer:
                    answers.append(answer.read().decode())
            return answers
        finally:
            service.send_signal(2)
            service.wait(timeout=60)
            service.stdout.close()

    def drift(self, *args):
        done = subprocess.run([binary(), "drift", *args, "--server", self.server.url], env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=True)
        return done.stdout

    def changed_prompt(self, file):
        plain, spool = self.ask("chat_service.py", self.folder()), self.folder()
        self.assertEqual(self.ask(file, spool, PROMPT_VERSION="1"), plain, "the service answers as before")
        self.ask(file, spool, PROMPT="Answer in one sentence, with an example.", PROMPT_VERSION="2")
        question = ("effects", "system_prompt_hash", "label:prompt=1", "label:prompt=2")
        effects = json.loads(self.drift(*question, "--json"))
        self.assertEqual((effects["pairs"], effects["changed"]), (len(QUESTIONS), len(QUESTIONS)))
        self.assertIn("the output changed in 5 (100.0%)", self.drift(*question))
        self.assertRegex(self.drift("compare", "1", "6", "--text"), r"(?s)Cause: system_prompt\..*\{\+ For example, on 17 things\.\+\}")

    def test_the_wrapper_shows_what_a_changed_prompt_did(self):
        self.changed_prompt("chat_service_wrapped.py")

    def test_the_client_alone_shows_what_a_changed_prompt_did(self):
        self.changed_prompt("chat_service_plain.py")


if __name__ == "__main__":
    unittest.main()
