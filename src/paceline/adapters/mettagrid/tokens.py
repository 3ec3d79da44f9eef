"""Tokens and actions: mettagrid's raw rows as the objects that its policies know, and back.

raw row [tokens, 3] ── Reader ──► AgentObservation ──► AgentPolicy.step ──► Action ── ActionTable ──► number
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from mettagrid.config.action_config import CHANGE_VIBE_PREFIX
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.simulator.interface import AgentObservation, Location, ObservationToken, VisibleTalk
from mettagrid.types import Action

from paceline.errors import BadInput

Array = np.ndarray[Any, Any]
_END = 0xFF  # the feature of the first row that holds no token


class ActionTable:
    """The numbers of a game's actions: primary ones first, then changes of vibe, then pairs of both.

    A policy that knows nothing of vibes answers with the number of a primary action, as in mettagrid's own PettingZoo
    environment.

    Args:
        names: Every action of the game, in the order of the simulator.
    """

    def __init__(self, names: Sequence[str]) -> None:
        ids = {name: number for number, name in enumerate(names)}
        vibes = [name for name in names if name.startswith(CHANGE_VIBE_PREFIX)]
        primary = [name for name in names if name not in set(vibes)]
        pairs: list[tuple[str, str | None]] = [(name, None) for name in [*primary, *vibes]]
        pairs += [(name, vibe) for name in primary for vibe in vibes]
        self._numbers = {pair: number for number, pair in enumerate(pairs)}
        self.buffers = [
            (0, ids[name]) if name in set(vibes) else (ids[name], 0 if vibe is None else ids[vibe])
            for name, vibe in pairs
        ]
        """Number → what the simulator's two action buffers hold, as `SimulationAgent.set_action` fills them."""
        self.flat = [self._numbers[name, None] for name in [*primary, *vibes]]
        """`PolicyEnvInterface.all_action_names` → number: how `step_batch` counts actions."""
        self.noop = self._numbers.get(("noop", None))

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, action: Action) -> int:
        """The number of an action.

        Raises:
            BadInput: the game has no such action.
        """
        try:
            return self._numbers[action.name, action.vibe]
        except (AttributeError, KeyError, TypeError):
            raise BadInput(self._complaint(action)) from None

    def _complaint(self, action: Any) -> str:
        if not isinstance(action, Action):
            return f"the policy answered {action!r:.80}; step() must give a mettagrid Action"
        known = [name for name, vibe in self._numbers if vibe is None]
        shown = ", ".join(known[:8])
        return f"the policy answered {action}, which is no action of this game; it has {shown} … ({len(known)})"


class TokenSpace(spaces.Box):
    """What an agent sees as rows of (location, feature, value), and what its policy must know of the game.

    Attributes:
        interface: The `PolicyEnvInterface` that mettagrid's policies are built with.
        table: The numbers of the game's actions.
    """

    def __init__(self, interface: PolicyEnvInterface, table: ActionTable) -> None:
        super().__init__(0, 255, interface.observation_shape, np.uint8)
        self.interface, self.table = interface, table


class TalkSpace(spaces.Dict):
    """The same in a game in which agents talk: "tokens" as before, and under "talk" what can be heard.

    A message is (agent, text, row, column, steps that it stays).
    """

    def __init__(self, interface: PolicyEnvInterface, table: ActionTable) -> None:
        number = spaces.Discrete(1 << 30)
        message = spaces.Tuple((number, spaces.Text(interface.talk.max_length, min_length=0), number, number, number))
        super().__init__({"tokens": TokenSpace(interface, table), "talk": spaces.Sequence(message)})
        self.interface, self.table = interface, table


class NumberSpace(spaces.Discrete):
    """The numbers of a game's actions, and which of them does nothing."""

    def __init__(self, table: ActionTable) -> None:
        super().__init__(len(table))
        self.noop = table.noop


class SpokenSpace(spaces.Tuple[Any]):
    """The number of an action, and what is said with it; nothing is said by an empty text."""

    def __init__(self, table: ActionTable, text: spaces.Text) -> None:
        super().__init__((NumberSpace(table), text))
        self.noop = None if table.noop is None else (table.noop, "")


class Reader:
    """Makes mettagrid's observations of raw rows. They are the policy's to keep: nothing in them changes later.

    Args:
        interface: The game.
    """

    def __init__(self, interface: PolicyEnvInterface) -> None:
        self._features = {feature.id: feature for feature in interface.obs_features}

    def observation(self, agent: int, raw: Array, talk: Sequence[Sequence[Any]] = ()) -> AgentObservation:
        """What `SimulationAgent.observation` gives, from a row [tokens, 3] and the messages that are heard."""
        features = self._features
        tokens = [ObservationToken(features[row[1]], row[2], row) for row in read(raw)]
        if not talk:
            return AgentObservation(agent, tokens)
        heard = [VisibleTalk(who, text, Location(row, column), steps) for who, text, row, column, steps in talk]
        return AgentObservation(agent, tokens, heard)


def read(raw: Array) -> list[tuple[int, int, int]]:
    """The rows that hold tokens, as plain numbers."""
    ends = raw[:, 1] == _END
    count = int(ends.argmax())
    if count == 0 and not (len(ends) and ends[0]):
        count = len(raw)  # full to the last row
    return raw[:count].tolist()  # type: ignore[no-any-return]
