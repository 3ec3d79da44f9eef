"""Stopping: how far an evaluation is played that ends with its so-and-so-many-th failure, wherever it is played.

jobs ── those that are still needed ──► played, in any order ──► kept, in the order of the plan, up to that failure

Played one after another, the run ends with that failure. On workers, episodes behind it may have ended before it, and
episodes before it may still be under way: the first are discarded, and the others are waited for. An interrupted run
discards none: they may yet belong to the result.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator

from paceline.evaluate.playing import Played
from paceline.evaluate.run import Job
from paceline.types import Episode


class Stop:
    """The end of a run that may have so many failures.

    Args:
        failures: The run ends with so many.
    """

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self._failed: list[tuple[int, int]] = []  # places in the plan, of failures that are known
        self._early: dict[Job, Played] = {}

    @property
    def early(self) -> list[Episode]:
        """What has been played well, and has not been given, as some before it has not."""
        return [episode for episode, _ in self._early.values() if episode.failure is None]

    def needed(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """The jobs that belong to the result, as far as is known when each of them is asked for."""
        return filter(self.is_needed, jobs)

    def kept(self, jobs: Iterable[Job], played: Iterable[tuple[Job, Played]]) -> Iterator[tuple[Job, Played]]:
        """What belongs to the result, each when all before it have been given; ends with the last failure.

        Args:
            jobs: The jobs in the order of the plan.
            played: What has been played, in the order in which it ended.
        """
        early, played = self._early, self._heard(played)
        for job in self.needed(jobs):
            while job not in early:
                found, what = next(played)
                early[found] = what
            yield job, early.pop(job)
            if job.place in self._failed[self._failures - 1 : self._failures]:
                return

    def _heard(self, played: Iterable[tuple[Job, Played]]) -> Iterator[tuple[Job, Played]]:
        for job, what in played:
            if what[0].failure is not None:
                insort(self._failed, job.place)
            yield job, what

    def is_needed(self, job: Job) -> bool:
        """Whether a job belongs to the result, as far as is known."""
        return len(self._failed) < self._failures or job.place <= self._failed[self._failures - 1]
