"""What a caller of training gives, and what is meant by it: a world, and a learner for every agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from paceline.catalog.resolve import missions_of, player_of
from paceline.engine import Pool
from paceline.errors import BadInput, PacelineError, place
from paceline.kinds import asks_all_in_turns
from paceline.options import split
from paceline.rollout import Rollout
from paceline.team import Builder, Player, understood
from paceline.train.banks import LEARNS, Bank, OneAgent, Recipe
from paceline.train.rings import Rows
from paceline.types import Mission, Seat

if TYPE_CHECKING:  # it reads settings, which take a while to import
    from paceline.learning.specs import DQN, PPO
    from paceline.train.job import Job


def mission_of(given: Any) -> Mission:
    """The mission that is meant."""
    found = missions_of(given)
    if len(found) != 1:
        raise BadInput(f"{given!r:.60} names {len(found)} missions; a training has one")
    return found[0]


def recipes_of(given: Any, mission: Mission, seed: int, device: str, lanes: int = 8) -> tuple[Recipe, ...]:
    """The banks of all agents: those of one architecture together, each learner of the user's own alone.

    Args:
        given: A learner for all, or a mapping with one for each agent.
        mission: The world.
        seed: What the first weights follow from.
        device: Where networks learn.
        lanes: Rows of a batch of policies that answer in rows.

    Raises:
        BadInput: an agent has no learner, or one that cannot learn or suit it; or none learns.
    """
    from paceline.learning.specs import architecture, learner_spec

    with Pool([], seed=seed) as pool:
        seats: list[Seat] = pool.map(partial(_seats, device), [mission])[0]
        wanted = _by_agent(given, [seat.agent for seat in seats])
        for_all = not isinstance(given, Mapping)
        ours: dict[Any, list[Seat]] = {}
        recipes: list[Recipe] = []
        for seat in seats:
            item = wanted[seat.agent]
            if isinstance(item, str) and _names_ours(item, for_all):
                ours.setdefault((item, architecture(seat)), []).append(seat)
            else:
                player = player_of(item, mission)[0]
                player, learns = pool.map(partial(_surveyed, mission, device, for_all), [(player, seat)])[0]
                in_rows = not learns and player.declares("act_batch") is not None
                recipes.append(Recipe((seat,), OneAgent(player, lanes if in_rows else 0, seed), learns))
    recipes += [Recipe(tuple(mine), _Stacked(learner_spec(spec), seed)) for (spec, _), mine in ours.items()]
    if not any(recipe.learns for recipe in recipes):
        raise BadInput("no agent learns: give at least one of them a learner, 'dqn' say")
    for recipe in recipes:
        for seat in recipe.seats if recipe.learns else ():
            Rows(seat)
    return tuple(sorted(recipes, key=lambda recipe: recipe.seats[0].index))


def _by_agent(given: Any, agents: Sequence[str]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(agents, given)
    strange = [str(name) for name in given if name not in agents]
    missing = [agent for agent in agents if agent not in given]
    if strange or missing:
        wrong = [*(f"{name} is no agent" for name in strange), *(f"{agent} has none" for agent in missing)]
        raise BadInput(f"learners are given by agent, and {', '.join(wrong)}; the agents are {', '.join(agents)}")
    return dict(given)


def _names_ours(text: str, for_all: bool) -> bool:
    """Whether a learner of ours is meant, and no class of the user's (file.py:Class, class=package.module.Class).

    What is given for all agents must learn, so a plain name is that of a learner, also if there is none such.
    """
    from paceline.learning.specs import LEARNERS

    name = split(text)[0]
    return name in LEARNERS or (for_all and ":" not in name and "=" not in name)


def _seats(device: str, mission: Mission) -> list[Seat]:
    try:
        rollout = Rollout(mission, device=device, digested=False)
    except BadInput:
        raise
    except Exception as error:
        what = f"environment {mission.name!r} cannot be built"
        raise BadInput(f"{what}: {type(error).__name__}: {error}{place(error)}") from error
    try:
        if asks_all_in_turns(rollout.env):
            raise BadInput(
                f"agents of environment {mission.name!r} act one after another: give turn='ordered' (--turn ordered); "
                "else they would learn from actions that did not count"
            )
        if not rollout.seats():
            raise BadInput(f"environment {mission.name!r} has no agents: there is nothing to train")
        return rollout.seats()
    finally:
        rollout.close()


def _surveyed(mission: Mission, device: str, for_all: bool, item: tuple[Player, Seat]) -> tuple[Player, bool]:
    """How what is given for an agent is understood, and whether it learns; it is built once for that."""
    player, seat = item
    try:
        player, learner = _built(mission, device, player, seat)
    except PacelineError:
        raise
    except Exception as error:
        what = f"the learner of agent {seat.agent!r} cannot be built"
        raise BadInput(f"{what}: {type(error).__name__}: {error}{place(error)}") from error
    missing = [name for name in LEARNS if not callable(getattr(learner, name, None))]
    acts = callable(learner) or "act" not in missing or player.declares("act_batch") is not None
    if missing and (for_all or not acts or "learn" not in missing):
        raise BadInput(
            f"the learner of agent {seat.agent!r}, a {type(learner).__name__}, has no {', no '.join(missing)}: a "
            "learner has act(obs), learn(window), snapshot() and restore(state)"
        )
    return player, not missing


def _built(mission: Mission, device: str, player: Player, seat: Seat) -> tuple[Player, Any]:
    """How a player is understood, and what it makes for a seat, which is closed again."""
    rollout = Rollout(mission, device=device, digested=False)
    try:
        seats = {each.agent: each for each in rollout.seats()}

        def observe(wanted: Seat) -> tuple[Seat, Any]:
            seen = rollout.begin(0)
            agent = wanted.agent if wanted.agent in seen else next(iter(seen))
            return seats[agent], seen[agent]

        player = understood(player, seat, observe)
    finally:
        rollout.close()
    builder = Builder(player)
    learner = builder.build(seat)
    builder.close([learner], sound=True)
    return player, learner


def inexact(job: Job) -> list[str]:
    """Looks which of our networks are other bits in other stacks here, so that results could depend on the plan.

    A stack's bits are its BLAS's to keep; see `learning.exactness`. Takes less than 0.1 s for each architecture.
    """
    found = []
    for recipe in job.recipes:
        if isinstance(recipe.make, _Stacked) and job.device == "cpu":
            found += [
                f"networks of {', '.join(recipe.agents)} do not keep their bits on this machine, so the digest can "
                f"depend on the plan: {finding}"
                for finding in recipe.make.selftest(recipe.seats[0], job.worlds)
            ]
    return found


@dataclass(frozen=True)
class _Stacked:
    """Makes a bank of ours.

    Attributes:
        config: What learner.
        seed: What the first weights follow from.
    """

    config: DQN | PPO
    seed: int

    def __call__(self, seats: tuple[Seat, ...], worlds: int) -> Bank:
        from paceline.learning.specs import build_bank

        return build_bank(seats, self.config, seed=self.seed, worlds=worlds, device=seats[0].device)

    def selftest(self, seat: Seat, worlds: int) -> tuple[str, ...]:
        """What a stack of these networks does not keep."""
        from paceline.learning.exactness import selftest
        from paceline.learning.specs import architecture

        inputs, actions = architecture(seat)
        return selftest((inputs, *self.config.hidden, actions), batch=self.config.batch, worlds=worlds).findings
