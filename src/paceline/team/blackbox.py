"""Black box: which policy is being asked, written where it can be read after its process is gone.

    Mind ── place in hand, calls so far ──► a small mapped file ──► read by the evaluation when an episode is lost

A process that exits or is killed cannot say whose action it was computing. The file is removed when a mind is closed.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

_NUMBERS = 16  # bytes: two numbers, the place in hand (counted from 1; 0 is none) and the calls so far
_BEFORE = ".before"


@dataclass(frozen=True)
class LastWords:
    """What a black box says.

    Attributes:
        agent: Whose policy was being asked; several with "or" between them, empty if none was.
        policy: That policy's name, or those policies'.
        step: After how many steps.
    """

    agent: str = ""
    policy: str = ""
    step: int = 0


class BlackBox:
    """The numbers of a mind: `numbers[0]` is the place in hand, counted from 1, `numbers[1]` the calls so far.

    Args:
        directory: Where the file goes; None: the numbers are kept in memory only.
        episode: Mission and index.
        who: Agent and policy of each place.
    """

    def __init__(self, directory: str | None, episode: tuple[str, int], who: Sequence[tuple[str, str]]) -> None:
        self.numbers: Any = [0, 0]
        self._path = None if directory is None else Path(directory) / f"{_stem(episode)}-{_safe(who[0][0])}.box"
        if self._path is None:
            return
        try:
            if self._path.exists():  # of a mind that was lost, and whose place this one takes
                self._path.rename(_before(self._path))
            self._path.write_bytes(bytes(_NUMBERS) + json.dumps(list(who)).encode())
            with self._path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), _NUMBERS)
        except OSError:  # another machine, or a full disk: an episode needs no black box
            self._path = None
            return
        self.numbers = memoryview(self._map).cast("q")

    def close(self) -> None:
        """Ends it: nothing was lost."""
        if self._path is not None:
            self.numbers.release()
            self.numbers = [0, 0]
            self._map.close()
            self._path.unlink(missing_ok=True)
            _before(self._path).unlink(missing_ok=True)
            self._path = None


def last_words(
    directory: str | None, episode: tuple[str, int], *, first: str | None = None, rebuilt: bool = False
) -> LastWords:
    """Who was being asked when an episode was lost, as far as its black boxes say.

    Args:
        directory: Where they are.
        episode: Mission and index.
        first: The first agent of the one mind to ask; None: all minds of the episode.
        rebuilt: Whether minds have been built anew since: then the boxes of those before them count.
    """
    asked: list[tuple[str, str, int]] = []
    steps = 0
    which = "*" if first is None else f"{_safe(first)}.box*"
    for path in sorted(Path(directory).glob(f"{_stem(episode)}-{which}")) if directory is not None else []:
        if (path.suffix == _BEFORE) != (rebuilt and (path.suffix == _BEFORE or _before(path).exists())):
            continue
        content = path.read_bytes()
        place, calls = memoryview(content[:_NUMBERS]).cast("q")
        steps = max(steps, calls)
        if place:
            asked.append((*json.loads(content[_NUMBERS:])[place - 1], max(0, calls - 1)))
    if not asked:
        return LastWords(step=max(0, steps - 1))  # the last actions were given, and their step was under way
    agents, policies, calls_before = zip(*asked, strict=True)
    return LastWords(" or ".join(agents), " or ".join(dict.fromkeys(policies)), max(calls_before))


def closing_mark(directory: str | None, episode: tuple[str, int]) -> Path | None:
    """The file that says that the environment of an episode is being closed; None: it is not kept."""
    if directory is None or not os.path.isdir(directory):  # another machine has no black boxes of ours
        return None
    return Path(directory) / f"{_stem(episode)}.closing"


def _before(path: Path) -> Path:
    return path.with_name(f"{path.name}{_BEFORE}")


def _safe(agent: str) -> str:
    """An agent's name as a part of a file's."""
    return "".join(sign if sign.isalnum() else "_" for sign in agent)


def _stem(episode: tuple[str, int]) -> str:
    return sha256(repr(episode).encode()).hexdigest()[:24]
