"""Store: the directory of a run of `collect`, with what was asked in plan.json and the rollouts in rollouts.npz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from paceline.collect.archive import ROLLOUTS, read_archive
from paceline.collect.collection import Collection, Recording
from paceline.collect.jobs import Job, Spec
from paceline.errors import BadInput
from paceline.fingerprint import fingerprint, options_text
from paceline.records import begin_run
from paceline.seeds import digest
from paceline.sources import digests, files_of

JOB = "collect"
"""What plan.json says under "job"."""

_SHOWN = 5


class Store:
    """A run's directory. It is made when the run begins; the rollouts are written when it ends, however it ends.

    Args:
        path: The directory.
        spec: What is collected.
        jobs: The rollouts that are asked for.
        about: Kept in plan.json beside what is asked.

    Raises:
        BadInput: the directory holds a run already.
    """

    def __init__(self, path: Path, spec: Spec, jobs: Sequence[Job], about: Mapping[str, Any]) -> None:
        self._path = path
        plan = {"identity": _identity(spec, jobs), "files": file_digests(spec), "recipes": _recipes(spec)}
        begin_run(path, {**about, "job": JOB, **plan})

    def write(self, collection: Collection) -> None:
        """Writes the rollouts that have been played."""
        collection.save(self._path / ROLLOUTS)


def read_rollout(path: Path, index: str) -> Recording:
    """One rollout of a run, as it is on disk, whether or not the file has been changed since.

    Args:
        path: The directory of the run.
        index: The rollout's number, as it was written.

    Raises:
        BadInput: the run has no such rollout.
    """
    _, jobs, played = read_archive(path)
    for job, each in zip(jobs, played, strict=True):
        if index == str(job.index):
            return Recording(job, each)
    some = ", ".join(str(job.index) for job in jobs[:_SHOWN])
    there = f"give one of {some}{' …' if len(jobs) > _SHOWN else ''}" if jobs else "there is none in it"
    raise BadInput(f"{path} has no rollout {index!r}; {there}")


def file_digests(spec: Spec) -> dict[str, str]:
    """The files of the environment and of the policy, each named by whose it is, with the SHA-256 of its content."""
    return digests(_files(spec))


def _files(spec: Spec) -> Iterator[tuple[Path, str]]:
    yield from ((path, _policy(spec)) for path in files_of(spec.player.factory))
    yield from ((path, _mission(spec)) for path in files_of(spec.mission.make))


def _recipes(spec: Spec) -> dict[str, Any]:
    made = partial(spec.mission.make, **spec.mission.options)
    return {_mission(spec): fingerprint(made), _policy(spec): fingerprint(spec.player.factory)}


def _mission(spec: Spec) -> str:
    return f"mission {spec.mission.name!r}"


def _policy(spec: Spec) -> str:
    return f"policy {spec.player.name!r}"


def _identity(spec: Spec, jobs: Sequence[Job]) -> dict[str, Any]:
    """What the rollouts follow from."""
    mission = spec.mission
    return {
        "mission": {
            "name": mission.name,
            "options": options_text(mission.make, mission.options),
            "steps": mission.steps,
        },
        "policy": spec.player.name,
        "rollouts": len(jobs),
        "iteration": jobs[0].iteration if jobs else 0,
        "tasks": digest([None if job.task is None else dict(job.task.options) for job in jobs]),
        "episodes": spec.episodes,
        "seed": spec.seed,
        "lanes": spec.lanes,
        "device": spec.device,
    }
