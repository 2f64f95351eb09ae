"""Tests of the wheel, which pip builds without a network and installs into a separate environment."""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from .support.log import Log, Signer
from .support.server import ROOT, SOURCES

CLIENT = ROOT / "clients/python"


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="colophon-py-package-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = Path(scratch.name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir", "--wheel-dir", cls.scratch, CLIENT], check=True)
        [cls.wheel] = cls.scratch.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", cls.scratch / "venv"], check=True)
        cls.python = cls.scratch / "venv/bin/python"
        subprocess.run([cls.python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-index", cls.wheel], check=True)

    def run_installed(self, code, *args):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COLOPHON"))}
        return subprocess.run([self.python, "-I", "-c", code, *args], env=environment, cwd=self.scratch, check=True, capture_output=True, text=True).stdout

    def test_the_wheel_has_all_sources_and_the_types(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            self.assertIsNone(archive.testzip())
            metadata = archive.read("colophon-0.0.0.dist-info/METADATA").decode()
        wanted = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*") if path.suffix == ".py" or path.name == "py.typed"}
        self.assertEqual({name for name in names if ".dist-info/" not in name}, wanted)
        self.assertIn("colophon/py.typed", names)
        for line in ("Name: colophon", "Requires-Python: >=3.10", "Provides-Extra: crypto"):
            self.assertIn(f"\n{line}\n", metadata)

    def test_the_installed_package_verifies_with_the_standard_library_alone(self):
        log = Log(Signer("log.example/x", 5)).grow(3)
        code = "import sys, colophon, colophon.verify as v; print(v.verify(sys.argv[1], sys.argv[2]).verdict, colophon.__file__, 'cryptography' in sys.modules)"
        verdict, file, library = self.run_installed(code, log.receipt(1), log.signer.key).split()
        self.assertEqual((verdict, library), ("holds", "False"))
        self.assertTrue(Path(file).is_relative_to(self.scratch))
        changed = self.run_installed(code, log.receipt(1).replace("event 1", "event 2"), log.signer.key)
        self.assertTrue(changed.startswith("fails"))

    def test_pip_knows_it(self):
        shown = subprocess.run([self.python, "-m", "pip", "show", "--files", "colophon"], check=True, capture_output=True, text=True).stdout
        self.assertIn("Version: 0.0.0", shown)
        subprocess.run([self.python, "-m", "pip", "check"], check=True, capture_output=True)

    def test_equal_sources_give_equal_bytes_and_an_archive_that_builds(self):
        code = "import sys; sys.path.insert(0, sys.argv[1]); import colophon_build as b; print(b.build_wheel(sys.argv[2])); print(b.build_sdist(sys.argv[2]))"

        def build(backend, folder):
            folder.mkdir()
            subprocess.run([sys.executable, "-B", "-c", code, backend, folder], check=True, capture_output=True)
            return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

        first = build(CLIENT / "build_backend", self.scratch / "one")
        self.assertEqual(first, build(CLIENT / "build_backend", self.scratch / "two"))
        self.assertEqual(first[self.wheel.name], hashlib.sha256(self.wheel.read_bytes()).hexdigest())
        with tarfile.open(self.scratch / "one/colophon-0.0.0.tar.gz") as archive:
            archive.extractall(self.scratch / "unpacked", filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(self.scratch / "unpacked")
        again = build(self.scratch / "unpacked/colophon-0.0.0/build_backend", self.scratch / "three")
        self.assertEqual(first[self.wheel.name], again[self.wheel.name])


if __name__ == "__main__":
    unittest.main()
