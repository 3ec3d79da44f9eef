"""What `rollout` is asked, kept in plan.json, so that `--resume DIR` alone can ask the same again.

what is given ──► plan.json, with the directory ──► --resume ──► what is not given now is as it was
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from paceline.errors import BadInput
from paceline.records import PLAN

_KEPT = "command"  # not "asked": that is what `eval` can go on with
_SECRET = "***"
_PLACE = ("plan", "jobs")  # they say one thing together: half of it would contradict what is given now


@dataclass
class _Given:
    """What `rollout` is given."""

    config: str
    mode: str | None = None
    seed: int | None = None
    max_turns: int | None = None
    policy: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    concurrency: int | None = None
    deadline: float | None = None
    quorum: float | None = None
    plan: str | None = None
    jobs: int | None = None
    untrusted: bool | None = None


def kept(given: Mapping[str, Any]) -> dict[str, Any]:
    """For plan.json: what was given, and in which directory."""
    return {_KEPT: {**given, "base_url": _without_secrets(_endpoint(given))}, "directory": os.getcwd()}


def given_before(run: Path, plan: Mapping[str, Any], given: Mapping[str, Any], home: Path) -> dict[str, Any]:
    """What is given now, completed by what a run's plan says; files are found from `home`.

    Whether the run is still the same is looked at later, as for everybody who goes on with one.

    Raises:
        BadInput: the run does not say it.
    """
    before, directory = plan.get(_KEPT), plan.get("directory")
    if not isinstance(before, dict) or not isinstance(directory, str):
        raise BadInput(f"{run} does not say how it was begun: give CONFIG.yaml, and who plays, again")
    before = asdict(validated(_Given, before, run))
    if before.get("base_url") == _SECRET and given["base_url"] is None:
        raise BadInput(f"the --base-url of {run} may hold a secret, and was not written down: give it again")
    if given["policy"] is not None:
        given = {**given, "policy": _meant_from_here(given["policy"], before.get("policy"), home)}
    if any(given[name] is not None for name in _PLACE):
        before = {**before, **dict.fromkeys(_PLACE)}
    os.chdir(home)
    return {name: before.get(name) if value is None else value for name, value in given.items()}


Kind = TypeVar("Kind")


def validated(kind: type[Kind], known: Any, run: Path) -> Kind:
    """What a run was asked, if it is of that kind.

    Raises:
        BadInput: plan.json has something else in it.
    """
    from pydantic import TypeAdapter, ValidationError  # here: not every command reads a run

    try:
        return TypeAdapter(kind).validate_python(known)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        what = f"{where} is {fault['input']!r:.60}" if where else fault["msg"]
        raise BadInput(f"{run / PLAN} is damaged: {what}; begin afresh with another directory") from error


def _meant_from_here(policy: str, before: str | None, home: Path) -> str:
    """Whoever names a file now means it from here. Written as before if it is that one: it is the run's identity."""
    here = _with_whole_path(policy, Path.cwd())
    return before if before is not None and here == _with_whole_path(before, home) else here


def _with_whole_path(policy: str, directory: Path) -> str:
    name, comma, keywords = policy.partition(",")
    file, colon, attribute = name.rpartition(":")
    path = str((directory / file).resolve()) if file.endswith(".py") else file
    return f"{path}{colon}{attribute}{comma}{keywords}"


def _endpoint(given: Mapping[str, Any]) -> str | None:
    """Where a model was asked: in another shell the variable may be missing, and OpenAI is not who was meant."""
    url: str | None = given["base_url"]
    return os.environ.get("OPENAI_BASE_URL") if given["model"] is not None and url is None else url


def _without_secrets(url: str | None) -> str | None:
    parts = urlsplit(url or "")
    return _SECRET if "@" in parts.netloc or parts.query else url
