"""`paceline missions`, `paceline policies`, `paceline describe`: what there is by name."""

from __future__ import annotations

import inspect
import json
import textwrap
from dataclasses import replace
from typing import Annotated, Any

import typer

from paceline.errors import BadInput, MemberExit, WorkerLost

_NONE = ["    none"]
_PATIENCE = 60.0  # seconds that an environment may take to be made and looked at
_JSON = typer.Option("--json", help="Print JSON, and nothing else.")


_POLICIES = ("sb3:", "torch:", "class=")  # kinds of names that only policies have


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("missions", help="List the missions that have a name here.\n\n\b\nExample:\n  paceline missions")(
        missions
    )
    app.command("policies", help="List the policies that have a name here.\n\n\b\nExample:\n  paceline policies")(
        policies
    )
    app.command(
        "describe",
        help="Say what a mission is, seats and spaces included, or what a policy is.\n\n\b\nExamples:\n"
        "  paceline describe forage\n  paceline describe gym:CartPole-v1\n  paceline describe greedy",
    )(describe)


def missions(as_json: Annotated[bool, _JSON] = False) -> None:
    """Lists missions."""
    from paceline.catalog import known_missions
    from paceline.worlds.meta.registration import WORLDS

    found = {name: mission.about for name, mission in known_missions().items()}
    more = "also: gym:ID, pz:module, mission files of mettagrid, file.py:factory, package.module:factory"
    with_tasks = textwrap.fill(f"with tasks, for collect and meta: {', '.join(WORLDS)}", 100, break_on_hyphens=False)
    _list(found, as_json, f"{more}\n{with_tasks}")


def policies(as_json: Annotated[bool, _JSON] = False) -> None:
    """Lists policies."""
    from paceline.catalog import known_policies
    from paceline.policies import ABOUT

    found = {name: ABOUT.get(name) or _first_line(factory) for name, factory in known_policies().items()}
    more = "also: file.py:Class, package.module:Class, sb3:ALGORITHM, torch:file.py:Module, class=package.module.Class"
    _list(found, as_json, more)


def describe(name: Annotated[str, typer.Argument(metavar="NAME", help="A mission, or a policy.")]) -> None:
    """Says what it is."""
    from paceline.catalog import find_missions, find_policies, known_policies

    first = name.partition(",")[0]
    if first.partition(":")[0] in known_policies() or first.startswith(_POLICIES):
        (player,) = find_policies([name])
        _describe_policy(player)
        return
    for mission in find_missions([name]):
        print(_looked_at(mission))


def _describe_policy(player: Any) -> None:
    from paceline.cli._options import lines, options_of

    about = inspect.getdoc(getattr(player.factory, "func", player.factory)) or ""
    for section in ("Args:", "Raises:"):
        about = about.partition(f"\n{section}")[0]
    print(f"policy {player.name}\n\n{about.strip()}\n")
    print("  options", *(lines([_as_written(o) for o in options_of(player.factory, {}, ("seat",))]) or _NONE), sep="\n")


def _as_written(option: Any) -> Any:
    """What a factory is given by a word of its own, or else after kw."""
    return option if option.name in ("weights", "trust") else replace(option, name=f"kw.{option.name}")


def _looked_at(mission: Any) -> str:
    """What there is to say of a mission. Its environment is made in a worker, which it may end, or keep for ever."""
    from paceline.engine import Pool
    from paceline.schedule import in_words

    with Pool([], backend="process", workers=1, restarts=1) as pool:
        (outcome,) = pool.map(_described, [mission], outcomes=True, deadline=_PATIENCE)
    error = outcome.error
    if error is None:
        return str(outcome.answer)
    error.__notes__ = []  # where it was tried out is of no interest
    if isinstance(error, BadInput):
        raise error
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, WorkerLost | MemberExit):
        why = f"to make it ends the process, or takes too long: {in_words(str(error), 'attempt').splitlines()[0]}"
    raise BadInput(f"{mission.name} makes no environment: {why}") from error


def _described(mission: Any) -> str:
    from paceline.cli._options import lines
    from paceline.rollout import Rollout

    rollout = Rollout(mission)
    try:
        seats, env = rollout.seats(), rollout.made
        if not seats:
            raise BadInput(f"mission {mission.name!r} has no seats: nobody can play it")
        agents = f"{', '.join(seat.agent for seat in seats[:6])}{' …' if len(seats) > 6 else ''}"
        said = [
            f"mission {mission.name}: {mission.about or _about(env) or 'no description'}",
            f"  seats         {len(seats)}: {agents}",
            f"  observations  {seats[0].observation_space}",
            f"  actions       {seats[0].action_space}",
            "  options",
            *(lines(_options(mission, env)) or ["    as the environment has them"]),
        ]
    finally:
        rollout.close()
    return "\n".join(said)


def _options(mission: Any, env: Any) -> list[Any]:
    """What can be set: as the maker says, or, if it takes any keyword, the class of what it made."""
    from paceline.adapters.mettagrid.missions import Recipe
    from paceline.cli._options import names_its_options, options_of

    if isinstance(mission.make, Recipe):
        return options_of(lambda: None, mission.make.options())
    maker = mission.make if names_its_options(mission.make) else _class_of(env)
    registered = getattr(getattr(env, "spec", None), "kwargs", None) or {}  # with Gymnasium
    return options_of(maker, {**registered, **mission.options}, ("render_mode",))


def _class_of(env: Any) -> type:
    """The class that took an env's options: of a game on a grid, the game's."""
    from paceline.worlds.grid.game import Game

    inner = getattr(env, "unwrapped", env)
    game = getattr(inner, "game", None)
    return type(game if isinstance(game, Game) else inner)


def _about(env: Any) -> str:
    """What the class of an env says of itself; nothing if it begins with a heading, as Gymnasium's own do."""
    line = _first_line(_class_of(env))
    return "" if line.startswith("#") else line


def _list(found: dict[str, str], as_json: bool, more: str) -> None:
    if as_json:
        print(json.dumps(found))
        return
    width = max(len(name) for name in found)
    for name, about in found.items():
        print(f"{name:{width}}  {about}")
    print(f"\n{more}")


def _first_line(factory: Any) -> str:
    return (inspect.getdoc(factory) or "").partition("\n")[0]
