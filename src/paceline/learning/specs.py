"""Learners by name: their settings, how they are written, and the bank that runs them.

    "dqn,hidden=128,lr=0.001" ── learner_spec ──► DQN(hidden=(128,), lr=0.001) ── build_bank(seats, …) ──► a Bank

Torch is imported when a bank is built, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt

from paceline.errors import BadInput
from paceline.learning.encoding import Numbers, Observations
from paceline.learning.row_policies import import_torch
from paceline.options import split
from paceline.settings import Settings
from paceline.types import Seat

if TYPE_CHECKING:
    from paceline.learning.bank import Bank


def _sizes(value: Any) -> Any:
    """Sizes of layers, as users write them: 128, [64, 64] or 64x64."""
    if isinstance(value, str):
        value = [int(size) if size.isdigit() else size for size in value.split("x")]
    return (value,) if isinstance(value, int) else value


_Sizes = Annotated[tuple[PositiveInt, ...], BeforeValidator(_sizes)]
_Positive = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0, le=1)]


class DQN(Settings):
    """How agents learn the values of their actions, from rows that are drawn from all that are kept."""

    hidden: _Sizes = (128, 128)
    """The sizes of the layers; one number: one layer."""
    lr: _Positive = 1e-3
    """Learning rate of Adam."""
    gamma: _Share = 0.95
    """What a reward counts one row later."""
    batch: PositiveInt = 64
    """Rows of a gradient step."""
    steps: PositiveInt = 8
    """Gradient steps of an update."""
    target_every: PositiveInt = 40
    """Gradient steps after which the target network takes the weights."""
    clip: _Positive = 10.0
    """The largest norm of an agent's gradient."""
    double: bool = True
    """Whether the network that learns chooses the next action, and the target network only values it."""
    dueling: bool = False
    """Whether the value of a state and the advantages of actions are outputs of their own."""
    n_step: PositiveInt = 1
    """How many rows a reward is added up over."""
    memory: Annotated[int, Field(ge=0)] = 0
    """The size of a memory of what was seen and done in the epoch so far, a GRU; 0: none."""
    sequence: PositiveInt = 8
    """With a memory: rows that are learned from one after another; a gradient step has batch / sequence sequences."""
    lead: Annotated[int, Field(ge=0)] = 8
    """With a memory: rows before each sequence, as far as the episode has them, that bring the memory there."""
    epsilon_start: _Share = 1.0
    """The share of random actions in the first epoch."""
    epsilon_end: _Share = 0.05
    """The share of random actions after `explore` epochs."""
    explore: Annotated[int, Field(ge=0)] = 20
    """Epochs over which the share of random actions goes down, in equal steps."""


class PPO(Settings):
    """How agents learn to act and to value states, from the rows since their last update."""

    hidden: _Sizes = (64, 64)
    """The sizes of the layers of actor and critic; one number: one layer."""
    lr: _Positive = 3e-3
    """Learning rate of Adam."""
    gamma: _Share = 0.95
    """What a reward counts one row later."""
    gae: _Share = 0.95
    """Generalised advantage estimation: how much the rewards of further rows count against the critic's word."""
    ratio: _Positive = 0.2
    """How far the probability of an action may move, as a share, before the objective is clipped."""
    batch: PositiveInt = 64
    """Rows of a gradient step."""
    passes: PositiveInt = 4
    """How often an update goes through its rows."""
    entropy: Annotated[float, Field(ge=0)] = 0.01
    """What entropy is worth."""
    critic: Annotated[float, Field(ge=0)] = 0.5
    """What the critic's error counts."""
    clip: _Positive = 0.5
    """The largest norm of an agent's gradient."""
    accepts_lag: bool = False
    """Whether it may learn from rows that older weights have collected; their log-probabilities are kept."""


class SequencePPO(Settings):
    """How a policy learns from whole rollouts, of one or several episodes of a task each."""

    lr: _Positive = 2e-3
    """Learning rate of Adam."""
    anneal: bool = True
    """Whether the learning rate goes down to a twentieth over the training."""
    gamma: _Share = 0.95
    """What a reward counts one row later, also of the next episode of the task."""
    gae: _Share = 0.95
    """Generalised advantage estimation: how much the rewards of further rows count against the critic's word."""
    ratio: _Positive = 0.2
    """How far the probability of an action may move, as a share, before the objective is clipped."""
    minibatches: PositiveInt = 4
    """Into how many minibatches the rollouts are divided."""
    passes: PositiveInt = 4
    """How often an update goes through its rollouts, where it is not told how many gradient steps it takes."""
    entropy: Annotated[float, Field(ge=0)] = 0.001
    """What entropy is worth."""
    critic: Annotated[float, Field(ge=0)] = 0.5
    """What the critic's error counts."""
    clip: _Positive = 0.5
    """The largest norm of the gradient."""


LEARNERS: dict[str, type[DQN] | type[PPO]] = {"dqn": DQN, "ppo": PPO}
"""The learners that there are, by name."""


def learner_spec(text: str) -> DQN | PPO:
    """Reads a learner as users write it: a name, then settings after commas.

    Raises:
        BadInput: there is no learner of that name, no such setting, or a value that makes no sense.
    """
    name, options = split(text)
    if name not in LEARNERS:
        raise BadInput(f"{name!r} is no learner: give {' or '.join(LEARNERS)}, or one of your own: file.py:Class")
    return LEARNERS[name].read(options, name)


def architecture(seat: Seat) -> tuple[int, int]:
    """How many numbers an encoded observation has, and how many actions there are: alike in all seats of a bank.

    Raises:
        BadInput: a learner cannot handle a space of this seat.
    """
    from gymnasium import spaces

    if not isinstance(seat.action_space, spaces.Discrete):
        raise BadInput(
            f"agent {seat.agent!r} of mission {seat.mission!r} acts in {seat.action_space}: dqn and ppo choose among "
            "numbered actions, a Discrete; give a learner of your own"
        )
    try:
        return Observations(seat.observation_space).size, Numbers(seat.action_space).size
    except BadInput as error:
        raise BadInput(f"agent {seat.agent!r} of mission {seat.mission!r}: {error}") from None


def build_bank(seats: Sequence[Seat], config: DQN | PPO, *, seed: int, worlds: int, device: str = "cpu") -> Bank:
    """Builds the bank of some agents.

    Args:
        seats: The agents' seats, of one architecture.
        config: How they learn.
        seed: What the first weights follow from, with the names of the agents.
        worlds: In how many worlds they act side by side.
        device: Where the networks are.

    Raises:
        BadInput: torch is not installed, or the seats do not suit.
    """
    import_torch()
    if isinstance(config, DQN):
        from paceline.learning.dqn import DQNBank
        from paceline.learning.recurrent_dqn import RecurrentDQNBank

        return (RecurrentDQNBank if config.memory else DQNBank)(seats, config, seed=seed, worlds=worlds, device=device)
    from paceline.learning.ppo import PPOBank

    return PPOBank(seats, config, seed=seed, worlds=worlds, device=device)
