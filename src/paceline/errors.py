"""The errors that Paceline itself raises; a member's own exception always comes back as itself.

PacelineError
├── NotSendable       a recipe, argument or answer cannot travel (found before work starts where possible)
├── TooLarge          a message is above the pool's limit, or has no room in shared memory
├── NotData           an answer holds more than data, and the plan trusts data only
├── RolloutsFailed    some rollouts of a collection could not be played; it has the others
├── NotKept           results could not be written, on a full disk say; it has what was played
├── EpisodesFailed    some episodes of an evaluation could not be played; it has the report
├── Diverged          an update made weights that are not finite
├── WorkerLost        a worker died, and dies again whenever it runs this call
│   └── CallTimeout   … or does not come back within its deadline, and was killed for it
├── TrajectoryTimeout a trajectory of text took longer than it may
├── ReplayDiverged    a rebuilt member did not answer as it had answered before
├── SharedRandomness  members on threads drew from a process-wide random generator
├── MemberExit        a member called sys.exit()
├── RemoteError       stands for a member's exception whose class cannot travel
├── PlanNotMet        what the plan asks for cannot be had on this machine
├── BadInput          a target, an option or an argument that makes no sense here
└── Closed            the pool is closed
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_OURS = Path(__file__).parent

Built = TypeVar("Built")


class PacelineError(Exception):
    """Root of everything that Paceline raises by itself."""


class NotSendable(PacelineError, TypeError):
    """A recipe, an argument or an answer cannot be pickled; the message names the path to the culprit."""


class TooLarge(PacelineError):
    """A message exceeds the pool's `max_message`, or there is no room for it in shared memory."""


class NotData(PacelineError, TypeError):
    """An answer holds more than data, or bytes that are none, and the plan says `trust="data"`; the message names the
    path to the culprit."""


class RolloutsFailed(PacelineError):
    """Some rollouts of a collection could not be played.

    Attributes:
        collection: All of them; those that could be played are complete.
    """

    def __init__(self, collection: Any) -> None:
        self.collection = collection
        failures = collection.failures
        index, first = next(iter(failures.items()))
        super().__init__(
            f"{len(failures)} of {len(collection)} rollouts failed, rollout {index} by {first.kind}: {first.message}. "
            "The others are in .collection of this error"
        )


class EpisodesFailed(PacelineError):
    """Some episodes of an evaluation could not be played.

    Attributes:
        report: Of all of them.
    """

    def __init__(self, report: Any) -> None:
        self.report = report
        super().__init__(f"{report.told_failures()}. Everything is in .report of this error")


class NotKept(PacelineError):
    """Results could not be written: the disk is full, say. What was written before is still there.

    Attributes:
        results: What has been played: the report of an evaluation, say. None: nothing has.
    """

    def __init__(self, what: str, results: Any = None) -> None:
        self.results = results
        super().__init__(what)


class Diverged(PacelineError, ArithmeticError):
    """An update gave figures or weights that are not finite; the message names agent and update."""


class WorkerLost(PacelineError):
    """A worker died while it ran this call, at every try; the other members live on.

    Attributes:
        member: Whose call it was; None: that of no one member.
    """

    member: int | None = None


class CallTimeout(WorkerLost, TimeoutError):
    """A call overran its deadline at every try; its worker was killed each time."""


class TrajectoryTimeout(PacelineError, TimeoutError):
    """A trajectory took longer than its `trajectory_timeout`: its environment, or the answers of its policy."""


class ReplayDiverged(PacelineError):
    """A rebuilt member gave another answer than before: it is not a function of its recipe and its calls."""


class SharedRandomness(PacelineError):
    """Members on threads drew from a process-wide generator, so the draws cannot be told apart."""


class MemberExit(PacelineError):
    """A member called `sys.exit()`; its worker lives on."""


class RemoteError(PacelineError):
    """Stands for an exception whose class cannot travel; holds its name, text and traceback."""


class PlanNotMet(PacelineError):
    """The plan names a backend or a number of workers that cannot be had here."""


class BadInput(PacelineError, ValueError):
    """A user's mistake: says what was wrong, where, and what to do."""


class Closed(PacelineError):
    """The pool, or what stands on one, has been closed."""


def brief(value: object, most: int = 120) -> str:
    """A value, for a message: its first so many characters."""
    shown = repr(value)
    return shown if len(shown) < most else shown[: most - 3] + "..."


def place(error: BaseException) -> str:
    """Where an error was raised, in brackets, if not by us."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "" if Path(last.filename).is_relative_to(_OURS) else f" ({last.filename}, line {last.lineno})"


def attempt(build: Callable[[], Built], what: str) -> Built:
    """Builds what a user gave.

    Raises:
        BadInput: it raised something; says what it was, and where.
    """
    try:
        return build()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{what} cannot be built: {type(error).__name__}: {error}{place(error)}") from error
