"""Frozen data that jobs pass around: what is played, who sits where, what came out."""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_TRACEBACK_LIMIT = 8000


def recipe_digest(recipe: Any) -> str | None:
    """Tells recipes apart within one process; None where that cannot be told, because it cannot be pickled."""
    import cloudpickle  # here, because it takes a tenth of `import paceline`

    try:
        return hashlib.sha256(cloudpickle.dumps(recipe)).hexdigest()
    except Exception:  # whatever a user's object raises when it is pickled
        return None


@dataclass(frozen=True)
class Mission:
    """A recipe for an environment: picklable, and the same wherever it is built.

    Attributes:
        name: How reports name it; part of what seeds follow from.
        make: Builds the environment: a Gymnasium `Env` or a PettingZoo `ParallelEnv`.
        options: Keyword arguments for `make`.
        steps: The most steps that an episode may have; None: as long as the environment lets it.
        reuse: Whether one environment may serve several episodes, one after another. By default each gets a new one.
        about: One sentence for listings.
        caution: What a user who plays it must be told, if anything.
        seating: How the policies of an episode are shuffled over its seats: "drawn" from the episode's own identity, or
            "chained", as cogames does it: one generator shuffles one list again and again, episode after episode; or
            written out, a row for each episode with the number of the policy at each seat.
    """

    name: str
    make: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    reuse: bool = False
    about: str = ""
    caution: str = ""
    seating: str | tuple[tuple[int, ...], ...] = "drawn"

    @cached_property
    def recipe(self) -> str | None:
        """Tells apart what `build` makes, whatever it is called; None where that cannot be told."""
        return recipe_digest((self.make, dict(self.options)))

    def build(self, **more: Any) -> Any:
        """Makes a new environment; `more` options count before its own."""
        return self.make(**{**self.options, **more})


def typed_name(name: str) -> str:
    """A mission's name as users type it: without the remark that it is a stand-in for another one."""
    return re.sub(r" \(stand-in[^)]*\)", "", name)


@dataclass(frozen=True)
class Task:
    """What a reset is asked to set up.

    Attributes:
        key: Names the task, by numbers and strings; random streams may follow from it.
        options: For the environment's `reset(options=…)`.
    """

    key: int | str | tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """The outcome of one step. Every field is a mapping by agent, as the world calls it.

    An environment may write into the observations that it has returned, so they hold until the next step only.

    Attributes:
        observations: What the agents that are due next see; empty when the play is over.
        rewards: What each agent in play got for its action.
        terminations: Whether the agent came to an end.
        truncations: Whether the agent was cut off, by the environment or by the mission's limit of steps.
        infos: What the environment says beside that.
        final_observations: What the agents that ended with this step saw last.
    """

    observations: dict[Any, Any]
    rewards: Mapping[Any, float]
    terminations: Mapping[Any, bool]
    truncations: Mapping[Any, bool]
    infos: Mapping[Any, Any]
    final_observations: Mapping[Any, Any]


@dataclass(slots=True)
class Acted:
    """An answer of a policy that says more than what to do: it may be given in place of an action.

    Attributes:
        action: The action; from `act_batch` one per row.
        extras: What goes on the tape beside it: log-probabilities, values. From `act_batch` one value per row each.
    """

    action: Any
    extras: Mapping[str, Any]


@dataclass(frozen=True)
class Seat:
    """One agent's place in a mission, as its policy gets to know it.

    Attributes:
        agent: The agent's name in the environment.
        index: Its number, in the environment's order.
        observation_space: What it will see.
        action_space: What it may do.
        mission: The mission's name.
        device: Where a network is to be put, as torch names it. Part of the run, not of its plan: another device
            gives other bits.
    """

    agent: str
    index: int
    observation_space: Any
    action_space: Any
    mission: str
    device: str = "cpu"


@dataclass(frozen=True)
class Failure:
    """Why an episode could not be played to its end.

    Attributes:
        kind: The exception's type.
        message: What it said.
        agent: Whose policy raised it; empty if it was the environment, or the worker.
        policy: That policy's name.
        step: After how many steps.
        traceback: As Python prints it.
    """

    kind: str
    message: str
    agent: str = ""
    policy: str = ""
    step: int = 0
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, agent: str = "", policy: str = "", step: int = 0) -> Failure:
        """What is kept of an exception; of a long traceback the end, where the cause stands."""
        kind = type(error).__name__
        try:
            message, text = str(error), "".join(traceback.format_exception(error))
        except Exception as second:  # an exception of a user's may fail to describe itself
            message = f"<{kind} whose str() raised {type(second).__name__}>"
            text = message
        return cls(kind, message, agent, policy, step, text[-_TRACEBACK_LIMIT:])


@dataclass(frozen=True)
class Totals:
    """What an environment has counted over an episode, if it counts itself: it may have `episode_totals()`.

    Attributes:
        rewards: Agent → the sum of its rewards, in the environment's own precision.
        stats: Agent → its numbers.
        game_stats: The numbers of the whole game, at its end.
        time_averaged_game_stats: Their means over all steps.
    """

    rewards: Mapping[str, float]
    stats: Mapping[str, Mapping[str, float]]
    game_stats: Mapping[str, float] = field(default_factory=dict)
    time_averaged_game_stats: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Episode:
    """The record of one play.

    Attributes:
        mission: Which mission.
        index: Which of its episodes.
        seed: The environment's seed.
        seats: Agent → the name of the policy that played it.
        rewards: Agent → the sum of its rewards.
        steps: How many steps were played.
        ended: Whether the environment came to an end of its own.
        truncated: Whether it was cut off, by the environment's limit or the mission's.
        stats: Agent → the numbers in the last info that it was given.
        game_stats: The numbers of the whole game, where the environment has some.
        time_averaged_game_stats: Their means over all steps.
        late: Agent → how many of its actions took longer than the limit for actions.
        replay: The file that it was written to, if any.
        failure: Why it was not played to its end; None if it was.
        tries: How often it was played, failed attempts included.
        seconds: Wall time. Not part of the digest.
        digest: SHA-256 over observations, actions, rewards and flags, step by step.
    """

    mission: str
    index: int
    seed: int
    seats: dict[str, str] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    ended: bool = False
    truncated: bool = False
    stats: dict[str, dict[str, float]] = field(default_factory=dict)
    game_stats: dict[str, float] = field(default_factory=dict)
    time_averaged_game_stats: dict[str, float] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    replay: str | None = None
    failure: Failure | None = None
    tries: int = 1
    seconds: float = 0.0
    digest: str = ""

    @property
    def name(self) -> str:
        """How a user names it: MISSION/INDEX."""
        return f"{self.mission}/{self.index}"


@dataclass(frozen=True)
class Turn:
    """One question to a policy of text: what an environment shows now, and everything said so far.

    Attributes:
        env_id: Which environment asks.
        group_id: Its group; the members of a group begin alike.
        tag: The name of its kind in the configuration.
        env_type: Its kind: "sokoban", "countdown" …
        number: Which turn of the trajectory, from 0.
        state: What the environment shows, as text.
        actions_left: How many actions the trajectory still has.
        messages: The conversation as chat messages, the last one being the question.
        seed: For sampling: it follows from (run, environment, turn), so the order of arrival does not matter.
        images: What the environment shows, if it shows pictures.
        actions: The names of the actions, if the environment has a fixed set of them.
    """

    env_id: int
    group_id: int
    tag: str
    env_type: str
    number: int
    state: str
    actions_left: int
    messages: tuple[Mapping[str, Any], ...] = ()
    seed: int = 0
    images: tuple[Any, ...] = ()
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a policy of text says to a turn.

    Attributes:
        text: The whole answer.
        finish_reason: "stop", or "length" if the answer was cut off: data, not a failure.
        prompt_tokens: As the endpoint counts them; 0 if nobody counted.
        completion_tokens: The same for the answer.
        retries: How often the question had to be asked again.
        extra: What else came with it (log-probabilities, token ids).
    """

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
