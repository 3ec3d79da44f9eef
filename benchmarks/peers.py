"""Installs the peers of `vector.py` and `collect.py`, and us, into an environment of their own.

PufferLib and EnvPool are optional: what cannot be installed leaves word why in `DIRECTORY/peers/`, for the table.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from pip._internal.models.index import PyPI

_TORCH = "torch==2.13.0"  # stands in every command, so that nobody brings another one
_PEERS = (_TORCH, "torchrl>=0.14", "stable-baselines3>=2.4", "gymnasium[mujoco]>=1.1", "matplotlib>=3.8")
_PUFFER = "pufferlib-3.0.0"
_PUFFER_SHA256 = "7df3a3e3f5f894d78d2a1f5374097890aec01473183e748abefe4f3faa10eaa9"


def go_on_in(directory: Path, *, vectors: bool = True) -> None:
    """Installs everybody who has not been tried yet, and starts over in there.

    Args:
        directory: The environment; made if it is not there.
        vectors: Whether peers are wanted that have vectors and no collectors.
    """
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        _pip(directory, "--editable", str(Path(__file__).resolve().parents[1]), *_PEERS)
    if vectors:
        _optional(directory, "envpool", _envpool)
        _optional(directory, "pufferlib", _pufferlib)
    os.execv(python, [str(python), sys.argv[0], *_without_peers(sys.argv[1:])])


def _without_peers(words: list[str]) -> list[str]:
    kept, words = [], list(words)
    while words:
        word = words.pop(0)
        if word == "--peers":
            words.pop(0)
        elif not word.startswith("--peers="):
            kept.append(word)
    return kept


def _pip(directory: Path, *what: str) -> None:
    words = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*words, *what], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise RuntimeError(f"pip: {said[0] if said else done.stderr[-300:]}")


def _optional(directory: Path, name: str, install: Callable[[Path], None]) -> None:
    """Tries it once. An empty word: it is there."""
    word = directory / "peers" / name
    if word.exists():
        return
    why = ""
    try:
        install(directory)
    except Exception as error:
        why = " ".join(f"not installed: {error}".split())[:160]
        print(f"{name}: {why}", file=sys.stderr)
    word.parent.mkdir(exist_ok=True)
    word.write_text(why, encoding="utf-8")


def _envpool(directory: Path) -> None:
    _pip(directory, "--only-binary", "envpool", "envpool>=1.2", _TORCH)


def _pufferlib(directory: Path) -> None:
    """Its Python files as they lie in its sdist.

    Its build wants a compiler, downloads of raylib and Box2D, and NumPy 1; without its C envs (NO_OCEAN=1) it stops at
    a name that it does not know. The vectors need none of that: they are Python, and ask for the types of old gym only.
    """
    _pip(directory, "--no-deps", "gym==0.26.2", "gym_notices")
    packed = _sdist(f"{_PUFFER}.tar.gz")
    if hashlib.sha256(packed).hexdigest() != _PUFFER_SHA256:
        raise RuntimeError(f"{_PUFFER}.tar.gz is not what it was")
    (home,) = directory.glob("lib/python*/site-packages")
    with tarfile.open(fileobj=io.BytesIO(packed)) as sdist:
        for member in sdist.getmembers():
            if _is_of_vectors(PurePosixPath(member.name)):
                _put(home / PurePosixPath(member.name).relative_to(_PUFFER), sdist.extractfile(member).read())  # type: ignore[union-attr]
    _put(home / f"{_PUFFER}.dist-info" / "METADATA", b"Metadata-Version: 2.1\nName: pufferlib\nVersion: 3.0.0\n")


def _sdist(name: str) -> bytes:
    """A source distribution, from where pip takes its packages; pip itself would build it."""
    page = f"{PyPI.simple_url}/{name.partition('-')[0]}/"
    links = re.findall(r'href="([^"]+)"', _fetched(page).decode())
    return _fetched(urljoin(page, next(link for link in links if f"/{name}" in link)))


def _fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=120) as answer:
        content: bytes = answer.read()
        return content


def _is_of_vectors(path: PurePosixPath) -> bool:
    places = (f"{_PUFFER}/pufferlib", f"{_PUFFER}/pufferlib/environments")
    return path.suffix == ".py" and str(path.parent) in places


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
