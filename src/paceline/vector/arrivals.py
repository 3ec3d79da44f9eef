"""Envs that have been stepped and not been fetched: `recv` gives as many as it is asked for, the others next time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from paceline.engine import Port
from paceline.errors import BadInput


class Arrivals:
    """What the envs of a port have given, until somebody fetches it."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.envs: list[int] = []  # in the order in which they came
        self._extras: dict[int, Any] = {}

    def take(self, count: int | None, timeout: float | None) -> tuple[list[int], dict[int, Any]]:
        """Waits until so many are there (None: all that were sent to), or `timeout` seconds; gives no more than that.

        Returns:
            The envs, in their order, and what they have to say beside their rows.

        Raises:
            BadInput: no env has been sent to, or the number makes no sense.
        """
        if not self.envs and not self._port.outstanding:
            raise BadInput("recv() without a send(): no env has been asked to step")
        if count is not None and count < 1:
            raise BadInput(f"recv() of {count} envs makes no sense; give 1 or more, or None for all")
        if count is None or count > len(self.envs):
            self._wait(None if count is None else count - len(self.envs), timeout)
        envs = sorted(self.envs[:count])
        self.envs = self.envs[len(envs) :]
        return envs, {env: self._extras.pop(env) for env in envs if env in self._extras}

    def put_back(self, envs: list[int], extras: Mapping[int, Any]) -> None:
        """What could not be handed out comes first the next time."""
        self.envs = [*envs, *self.envs]
        self._extras.update(extras)

    def _wait(self, count: int | None, timeout: float | None) -> None:
        port = self._port
        ready = port.wait(count, timeout=timeout, outcomes=True)
        self.envs += [env for env in ready if env not in port.errors]  # not lost with the one that raised
        self._extras.update(port.extras)
        if port.errors:
            raise port.answers.first_error()

    def check_fetched(self, envs: Collection[int] | None = None) -> None:
        """Before envs are stepped, or reset: what they have given would be written over.

        Raises:
            BadInput: one of these (None: any) has been stepped and not been fetched.
        """
        kept = sorted(self.envs if envs is None else set(self.envs).intersection(envs))
        if kept:
            raise BadInput(f"envs {kept} have been stepped and not been fetched: recv() first")
