"""Runs a function in a Python that was started for it: its own imports, hash seed and generators, nothing of ours.

    main ── stdin: (function, arguments) ──► python -c … ── stdout: ("ok", answer) or ("error", words) ──► main

The answer is data (engine/transport/plain_data.py), and the process prints elsewhere: nothing that an env writes is
unpickled here.

A worker of a pool would not do: it draws from streams that Paceline gave it, and hashes strings as main does.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from paceline.engine.transport import codec, plain_data
from paceline.errors import NotData, NotSendable
from paceline.testing.findings import Finding

_START = """
import json, os, sys
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what an env prints is no answer
sys.path[:] = json.loads(sys.argv[1])
from paceline.testing.elsewhere import answer
answer(sys.stdin.buffer, answers)
"""
_PATIENCE = 600.0
_LAST_LINES = 5


class Failed(Exception):
    """The function raised there, or the process ended before it had answered."""


class Ended(Failed):
    """The process ended before it had answered, or did not answer in time."""


def run_elsewhere(function: Callable[..., Any], *args: Any, hash_seed: str, patience: float = _PATIENCE) -> Any:
    """Gives `function(*args)` as a new Python process sees it.

    Args:
        function: What is run; it and its arguments must be sendable.
        hash_seed: PYTHONHASHSEED of the new process.
        patience: Seconds after which it is given up.

    Raises:
        Failed: says what the process raised.
        Ended: says how it ended, or that it did not.
    """
    content = pickle.dumps(codec.settle(codec.pack((function, args))))
    command = [sys.executable, "-c", _START, json.dumps(sys.path)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    try:
        done = subprocess.run(command, input=content, capture_output=True, env=environment, timeout=patience)
    except subprocess.TimeoutExpired:
        raise Ended(f"it was still running after {patience:.0f} s") from None
    if done.returncode or not done.stdout:
        raise Ended(_ending(done.returncode, done.stderr))
    try:
        kind, answer = plain_data.from_bytes(done.stdout)
    except (NotData, TypeError, ValueError) as error:
        raise Failed(f"its process gave no answer that can be read: {error}") from None
    if kind == "error":
        raise Failed(answer)
    return answer


def sendable(recipe: Any) -> Finding:
    """Can this recipe be sent to a worker?"""
    try:
        size = codec.size(codec.pack(recipe))
    except NotSendable as error:
        advice = (
            "Make that part inside the factory: it is called in the worker. Until then only inline and threads run it."
        )
        return Finding("sendable", "problem", f"{error}.", advice=advice)
    return Finding("sendable", "ok", "Its recipe can be sent to a worker.", {"bytes": size})


def own_hash_seed() -> str | None:
    """The hash seed of this process; None if it is a random one, which nobody can know."""
    ours = os.environ.get("PYTHONHASHSEED", "random")
    # The variable may have been set after Python had started; for 0 at least that can be seen.
    began_with_it = ours.isdigit() and (int(ours) == 0) == (not sys.flags.hash_randomization)
    return ours if began_with_it else None


def another_hash_seed() -> str:
    """A hash seed that is not this process's."""
    return str((int(own_hash_seed() or 0) + 1) % 2**32)


def answer(questions: Any, answers: Any) -> None:
    """The other process: reads a function, runs it, writes what it gave."""
    try:
        function, args = codec.unpack(pickle.loads(questions.read()))
        reply = "ok", function(*args)
    except Exception as error:
        reply = "error", f"{type(error).__name__}: {error}"
    with answers:
        answers.write(plain_data.to_bytes(reply))


def _ending(code: int, errors: bytes) -> str:
    how = f"exit code {code}"
    if code < 0:
        how = signal.Signals(-code).name
    last = errors.decode("utf-8", "replace").strip().splitlines()[-_LAST_LINES:]
    return "\n".join([f"its process ended with {how}", *last])
