"""What has been asked, and what has come back.

Request   one message to one worker: an operation on some members; kept until it is answered
Handle    what the caller holds: gathers the answers of one post, in member order
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from paceline.engine.host.member import ERROR, OK, Result
from paceline.engine.transport import codec
from paceline.errors import Closed, NotData


class Outcome(NamedTuple):
    """One member's answer, or the error that it raised."""

    answer: Any = None
    error: BaseException | None = None

    @property
    def ok(self) -> bool:
        """Whether it answered."""
        return self.error is None


_TOLD = 8  # how many errors beside the first are told in full

Found = tuple[Any, BaseException | None]
"""As an `Outcome`, which takes longer to make."""

_NAMES = {
    "build": "its constructor (or replay)",
    "map": "the mapped function",
    "snapshot": "snapshot()",
    "drop": "close()",
    "prepare": "what every worker is told first",
}


class Request:
    """One message to one worker."""

    __slots__ = ("deadline", "handle", "items", "method", "op", "record", "since", "tries")

    def __init__(
        self,
        op: str,
        items: dict[int, Any],
        *,
        method: Any = "",
        record: bool = False,
        handle: Handle | None = None,
        deadline: float | None = None,
        tries: int = 0,
    ) -> None:
        self.op = op
        self.items = items
        self.method = method
        self.record = record
        self.handle = handle
        self.deadline = deadline
        self.tries = tries
        self.since = 0.0

    def singles(self) -> list[Request]:
        """The same request, one message per item: to find out which of them kills its worker."""
        return [self.part(index) for index in self.items]

    def part(self, index: int) -> Request:
        return Request(
            self.op,
            {index: self.items[index]},
            method=self.method,
            record=self.record,
            handle=self.handle,
            deadline=self.deadline,
            tries=self.tries,
        )

    def call_name(self) -> str:
        """How an error message names it."""
        return {"call": f"{self.method}()", **_NAMES}.get(self.op, self.op)


def wait_for_any(handles: Sequence[Handle], timeout: float | None) -> None:
    """Waits until something more has been answered of what was posted to one pool, or `timeout` seconds."""
    end = None if timeout is None else monotonic() + timeout
    before = sum(handle.answered for handle in handles)
    waiting = next((handle for handle in handles if not handle.done), None)
    while waiting is not None and sum(handle.answered for handle in handles) == before:
        left = None if end is None else max(0.0, end - monotonic())
        waiting.go_on(left)
        if left == 0.0:
            return


class Handle:
    """The answers to one `post`, as they come in. `wait` gives them all, in member order."""

    def __init__(self, pump: Callable[[float | None], bool], expected: Iterable[int]) -> None:
        self._pump = pump
        self._expected = list(expected)
        self._results: dict[int, Result] = {}
        self._notes: dict[int, str] = {}
        self.unwanted: set[int] = set()  # whose answers nobody waits for any more
        self.answered = 0

    @property
    def done(self) -> bool:
        """Whether everybody has answered."""
        return self.answered == len(self._expected)

    def __len__(self) -> int:
        return len(self._expected)

    def nbytes(self) -> int:
        """Bytes of the answers so far."""
        return sum(codec.size(result[2]) for result in self._results.values() if result[1] == OK)

    def take(self, result: Result, note: str) -> None:
        """Takes one answer in (the pool calls this)."""
        self._results[result[0]] = result
        if note:
            self._notes[result[0]] = note
        self.answered += 1

    def take_all(self, results: Iterable[Result]) -> None:
        """Takes answers in that there is nothing to note about."""
        self._results.update([(result[0], result) for result in results])
        self.answered = len(self._results)

    def ready(self, min_ready: int = 1, timeout: float | None = None) -> list[int]:
        """Waits until `min_ready` members have answered, or `timeout` seconds. Returns who has, in member order."""
        end = None if timeout is None else monotonic() + timeout
        goal = min(min_ready, len(self._expected))
        while self.answered < goal:
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                break
            self.go_on(left)
        return [member for member in self._expected if member in self._results]

    def outcomes(self, members: Iterable[int] | None = None) -> dict[int, Outcome]:
        """What the members have answered so far: an answer or an error each."""
        chosen = self._expected if members is None else members
        return {member: self.outcome(member) for member in chosen if member in self._results}

    def wait(self) -> dict[int, Any]:
        """Waits for everybody. Returns the answers in member order, or raises the lowest member's exception."""
        self.finish()
        results = self._results
        if all(result[1] != ERROR for result in results.values()):
            return {member: self._answer(member) for member in self._expected}
        raise self.first_error()

    def _answer(self, member: int) -> Any:
        try:
            return codec.unpack(self._results[member][2])
        except NotData as error:
            raise noted(error, f"in the answer of member {member}") from None

    def finish(self) -> None:
        """Waits for everybody, and raises nothing."""
        while not self.done:
            self.go_on(None)

    def go_on(self, timeout: float | None) -> None:
        """Takes in what comes, for this post or any other of the pool."""
        if not self._pump(timeout) and not self.done:
            raise Closed(f"the pool was closed before members {self._missing()} had answered")

    def _missing(self) -> list[int]:
        return [member for member in self._expected if member not in self._results]

    def failures(self) -> dict[int, BaseException]:
        """The errors so far, in member order."""
        return {
            member: noted(as_error(self._results[member][2]), self._notes.get(member, ""))
            for member in self._expected
            if member in self._results and self._results[member][1] == ERROR
        }

    def outcome(self, member: int) -> Outcome:
        """What this member has answered: an answer or an error."""
        result = self._results[member]
        if result[1] == ERROR:
            return Outcome(None, noted(as_error(result[2]), self._notes.get(member, "")))
        return tuple.__new__(Outcome, _unpacked(result[2]))  # as Outcome(…), which takes thrice as long

    def has(self, member: int) -> bool:
        """Whether this member has answered."""
        return member in self._results

    def found(self, member: int) -> Found | None:
        """What this member has answered, if it has: as `outcome`, in haste."""
        result = self._results.get(member)
        if result is None:
            return None
        return _unpacked(result[2]) if result[1] != ERROR else self.outcome(member)

    def first_error(self, among: set[int] | None = None) -> BaseException:
        """The lowest member's exception; the others hang on it as notes."""
        return first_of({m: error for m, error in self.failures().items() if among is None or m in among})


def first_of(failures: Mapping[int, BaseException]) -> BaseException:
    """The lowest member's exception; the others hang on it as notes."""
    first, *others = sorted(failures)
    for member in others[:_TOLD]:
        words = codec.words(failures[member])
        noted(failures[first], f"also member {member}: {type(failures[member]).__name__}: {words}")
    if len(others) > _TOLD:
        noted(failures[first], f"and {len(others) - _TOLD} members more")
    return failures[first]


def _unpacked(payload: codec.Packed) -> Found:
    """An answer that came; one that its caller cannot read is an error."""
    try:
        return pickle.loads(payload) if type(payload) is bytes else codec.unpack(payload), None
    except Exception as error:
        return None, error


def as_error(payload: Any) -> BaseException:
    """An error is kept as itself where it was raised in this process, and packed where it came from elsewhere."""
    return payload if isinstance(payload, BaseException) else codec.unpack_error(payload)


def noted(error: BaseException, note: str) -> BaseException:
    """An error with a note, which it has once however often it is raised."""
    with contextlib.suppress(Exception):  # an error of the user's may refuse; it matters more than its note
        notes = getattr(error, "__notes__", [])
        if not isinstance(notes, list):
            error.__notes__ = [codec.words(notes)]
        if note and note not in notes:
            error.add_note(note)
    return error
