"""Remotes: the lines to envs in their workers, spoken to in the words of pomdp-baselines' fork."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from paceline.engine import Handle, Pool
from paceline.errors import BadInput, Closed

_COMMANDS = ("reset", "step", "get_attr", "seed", "close")


class Remote:
    """One end of the line to an env in its worker. Answers come in the order of the messages.

    Args:
        pool: Whose member the env is; the remote does not keep it alive.
        index: Which member.
    """

    def __init__(self, pool: Pool, index: int) -> None:
        self._pool, self._index = weakref.ref(pool), index
        self._due: deque[Handle] = deque()
        self.closed = False
        """Whether nothing can be sent any more."""

    @property
    def due(self) -> int:
        """How many answers are to be received."""
        return len(self._due)

    def send(self, message: tuple[str, Any]) -> None:
        """Sends a message, and does not wait for its answer.

        Args:
            message: ("reset", {"task": task}), ("step", action), ("step", {"action": action}), ("get_attr", {"attr":
                name}), ("seed", {"seed": seed}) or ("close", None).

        Raises:
            BadInput: it is another message.
            Closed: the manager is closed, or this remote.
        """
        if not isinstance(message, tuple | list) or len(message) != 2 or message[0] not in _COMMANDS:
            raise BadInput(
                f"send({message!r:.60}): give a command, one of {', '.join(_COMMANDS)}, and what belongs to it"
            )
        pool = self._pool()
        if self.closed or pool is None:
            raise Closed(f"the remote of worker {self._index} is closed")
        command, data = message
        if command == "close":
            self.closed = True
            return
        self._due.append(pool.post(command, {self._index: _arguments(command, data)}, record=command != "get_attr"))

    def recv(self) -> tuple[str, Any]:
        """Waits for the answer to the oldest message that has none yet.

        Returns:
            ("obs", observation), ("transition", (observation, reward, done, info)), ("attr", value) or ("done", None).

        Raises:
            BadInput: there is no such message. What the env raises comes as it is.
        """
        if not self._due:
            raise BadInput(f"recv() from worker {self._index}, to which nothing has been sent: it would wait for ever")
        kind, value = self._due.popleft().wait()[self._index]
        return kind, value

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether `recv` would give an answer at once.

        Args:
            timeout: Seconds to wait for that; None: as long as it takes.
        """
        return bool(self._due) and bool(self._due[0].ready(1, timeout))

    def close(self) -> None:
        """Ends the line; the worker ends with its manager."""
        self.closed = True


def _arguments(command: str, data: Any) -> tuple[Any, ...]:
    """What a method of `HostedEnv` is given."""
    if command == "step":
        return (data["action"] if isinstance(data, dict) and set(data) == {"action"} else data,)
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise BadInput(f"({command!r}, {data!r:.40}): give a dict beside {command!r}")
    if command == "reset":
        return (data,)
    name = "attr" if command == "get_attr" else "seed"
    if name not in data:
        raise BadInput(f"({command!r}, {data!r:.40}): the dict needs {name!r}")
    return (data[name], data.get("subattrs") or []) if command == "get_attr" else (data[name],)
