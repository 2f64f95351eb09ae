"""Builds wheels and source archives (PEP 517, 660) with the standard library alone, so that the client can be installed without a network.

Equal sources give equal bytes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

_ROOT = Path(__file__).resolve().parent.parent
_TIME = (1980, 1, 1, 0, 0, 0)


def _project() -> dict[str, Any]:
    with open(_ROOT / "pyproject.toml", "rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    found = re.search(r'^__version__ = "(.+)"$', (_ROOT / "src/colophon/__init__.py").read_text(), re.MULTILINE)
    assert found, "src/colophon/__init__.py names no version"
    project["version"] = found[1]
    return project


def _metadata(project: dict[str, Any]) -> str:
    lines = ["Metadata-Version: 2.3", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}",
             f"License: {project['license']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {requirement} ; extra == '{extra}'" for requirement in requirements]
    lines += ["Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + (_ROOT / project["readme"]).read_text(encoding="utf-8")


def _sources() -> list[Path]:
    return sorted(path for path in (_ROOT / "src").rglob("*") if path.suffix == ".py" or path.name == "py.typed")


def _wheel(folder: str, contents: dict[str, bytes]) -> str:
    project = _project()
    info = f"{project['name']}-{project['version']}.dist-info"
    contents = contents | {
        f"{info}/METADATA": _metadata(project).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: colophon_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = f"{project['name']}-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    return _wheel(wheel_directory, {path.relative_to(_ROOT / "src").as_posix(): path.read_bytes() for path in _sources()})


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    return _wheel(wheel_directory, {"colophon.pth": f"{_ROOT / 'src'}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    project = _project()
    name = f"{project['name']}-{project['version']}"
    contents = {path.relative_to(_ROOT).as_posix(): path.read_bytes() for path in _sources()}
    for other in "pyproject.toml", "README.md", "build_backend/colophon_build.py":
        contents[other] = (_ROOT / other).read_bytes()
    contents["PKG-INFO"] = _metadata(project).encode()
    with open(os.path.join(sdist_directory, f"{name}.tar.gz"), "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return f"{name}.tar.gz"
