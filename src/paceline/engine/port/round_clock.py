"""A clock for the rounds of a port: what they have taken, and when journals are to be looked at again.

Rounds that go by rings are timed one by one. Those that are run straight (inline_round.py) are not, so that they pay
nothing for it: each is taken to last as long as those that were timed.
"""

from __future__ import annotations

from time import perf_counter

from paceline.engine.journal.snapshots import ROUNDS_PER_LOOK, SECONDS_PER_LOOK

_MOST_STRAIGHT = 8 * ROUNDS_PER_LOOK


class RoundClock:
    """Times the rounds of one port."""

    __slots__ = ("_begun", "_looked", "_seconds", "_since", "_timed", "next_look")

    def __init__(self) -> None:
        self._since: float | None = None  # when a round began that is not over
        self._begun = 0.0  # when the rounds since the last look began
        self._seconds, self._timed = 0.0, 0  # of rounds that were timed since then, and how many
        self._looked = 0  # how many rounds there had been
        self.next_look = _MOST_STRAIGHT
        """The round before which a look is due, at the latest."""

    def begin(self) -> None:
        """Rows have been asked for, and none were under way."""
        self._since = perf_counter()
        if not self._timed:
            self._begun = self._since

    def end(self, rounds: int) -> bool:
        """All of them have been fetched, and there have been so many rounds. Returns whether it is time for a look."""
        if self._since is not None:
            now = perf_counter()
            self._seconds += now - self._since
            self._timed += 1
            self._since = None
            self.next_look = min(self.next_look, rounds + self._rounds_per_look())
            if now - self._begun >= SECONDS_PER_LOOK:
                return True
        return rounds >= self.next_look

    def _rounds_per_look(self) -> int:
        each = self._seconds / self._timed
        return max(1, min(_MOST_STRAIGHT, int(SECONDS_PER_LOOK / max(each, 1e-9))))

    def is_time(self) -> bool:
        """Whether it is time for a look, though some rows are under way: they may always be."""
        return self._since is not None and perf_counter() - self._since >= SECONDS_PER_LOOK

    def take(self, rounds: int) -> float:
        """Gives the seconds of all rounds since the last look, and begins to count anew."""
        seconds, passed = self._seconds, rounds - self._looked
        if self._timed:
            seconds *= max(passed, self._timed) / self._timed
            self.next_look = rounds + self._rounds_per_look()
        elif self._since is None:
            return 0.0  # until one has been timed
        if self._since is not None:
            now = perf_counter()
            seconds += now - self._since
            self._since = now
        self._seconds, self._timed, self._looked = 0.0, 0, rounds
        return seconds
