"""An expert that sees only the chat: what a perfect model would answer, for test servers."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

from paceline.errors import BadInput
from paceline.policies.scripted_text import Expert
from paceline.policies.solvers import SOLVERS
from paceline.types import Turn

_STATE = re.compile(r"State:\n(.*)\nYou have (\d+) actions left", re.DOTALL)
_ACTIONS = re.compile(r"Your available actions are:\n([^\n]*)\n")


class ExpertChat:
    """Answers requests for chat completions as a solver would, from the messages alone.

    `LlmServer(answer=ExpertChat())` is a model that plays well.

    Args:
        actions: The most actions of one answer.
        separator: What stands between them.
    """

    def __init__(self, actions: int = 2, separator: str = "||") -> None:
        self._expert = Expert(actions, separator)

    def __call__(self, request: Mapping[str, Any]) -> str:
        """Gives the text of the answer."""
        messages = request["messages"]
        system, last = str(messages[0]["content"]), str(messages[-1]["content"])
        shown = _STATE.search(last, last.rfind("\nTurn ") + 1)
        if shown is None:
            raise BadInput("the last message shows no state: there is nothing to play")
        names = _ACTIONS.search(system)
        turn = Turn(
            env_id=0,
            group_id=0,
            tag="",
            env_type=_kind(system),
            number=0,
            state=shown[1],
            actions_left=int(shown[2]),
            actions=tuple(names[1].split(", ")) if names else (),
        )
        return self._expert.reply(turn)


def _kind(system: str) -> str:
    """Which world tells a model this."""
    for env_type in SOLVERS:
        world = importlib.import_module(f"paceline.worlds.text.{env_type}")
        if getattr(world, "INSTRUCTION", None) and world.INSTRUCTION.strip()[:60] in system:
            return env_type
    raise BadInput("the system message is none of the built-in worlds'")
