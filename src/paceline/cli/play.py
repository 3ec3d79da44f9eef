"""`paceline play`: a person plays a text environment in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

_HELP = """Play a text environment yourself: what a model sees, and what it may answer.

\b
Examples:
  paceline play sokoban
  paceline play sokoban,num_boxes=2 --seed 7
  paceline play frozen_lake,is_slippery=false
  paceline play webshop
  paceline play my_env.py:MyEnv,size=5

\b
Arrow keys, w a s d, or a first letter choose an action where actions have names; elsewhere write the answer, and
press Enter. q ends the game.
"""
_ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left"}
_LETTERS = {"w": "up", "s": "down", "d": "right", "a": "left"}
_QUIT = ("q", "quit", "\x03", "\x04")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("play", help=_HELP)(play)


def play(
    env_type: Annotated[
        str, typer.Argument(metavar="ENV[,key=value …]", help="sokoban, SimpleSokoban, … or file.py:Class.")
    ],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Which episode.")] = 0,
    mode: Annotated[str, typer.Option(help="train or val.")] = "train",
) -> int:
    """Plays one episode."""
    from paceline.catalog.text_envs import check_is_text_env, explanation, takes, written_text_env
    from paceline.errors import BadInput

    if mode not in ("train", "val"):
        raise BadInput(f"--mode {mode}: give train or val")
    factory, options = written_text_env(env_type)
    instruction, legend = explanation(factory)
    with _blamed(env_type):
        env = factory(options)
        check_is_text_env(env, env_type)
        known = takes(env.reset)
        env.reset(**{name: value for name, value in (("seed", seed), ("mode", mode)) if known(name)})
    print(instruction)
    if legend:
        print(", ".join(f"{sign}: {what}" for sign, what in legend.items()))
    reward, steps, info = _game(env, env_type)
    ending = "solved" if info.get("success") else "not solved"
    print(f"{ending} after {steps} actions, reward {reward:g}")
    return 0


@contextmanager
def _blamed(env_type: str) -> Iterator[None]:
    """What an environment raises is told as its own; not what becomes of our printing."""
    from paceline.errors import BadInput, PacelineError

    try:
        yield
    except PacelineError:
        raise
    except Exception as error:
        raise BadInput(f"{env_type} raised {type(error).__name__}: {error}") from error


def _game(env: Any, env_type: str) -> tuple[float, int, Mapping[str, Any]]:
    from paceline.catalog.text_envs import lookup_of

    reward, steps, info = 0.0, 0, {}  # type: float, int, Mapping[str, Any]
    with _blamed(env_type):
        shown = _text(env.render())
    print(f"\n{shown}")
    with _keys(lookup_of(env) or {}) as actions:
        for action in actions:
            with _blamed(env_type):
                _, gained, done, info = env.step(action)
                shown = _text(env.render())
            reward, steps = reward + gained, steps + 1
            print(f"\n{shown}\nreward {gained:g}, together {reward:g}")
            if done:
                break
    return reward, steps, info


def _text(state: Any) -> str:
    return state if isinstance(state, str) else f"a picture of {state.shape}: play it with a text view instead"


@contextmanager
def _keys(lookup: Mapping[int, str]) -> Iterator[Iterator[Any]]:
    """Actions as somebody chooses them: single keys in a terminal, lines elsewhere."""
    if not lookup or not sys.stdin.isatty():
        yield _chosen(_lines(), lookup)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _chosen(_pressed(), lookup)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed() -> Iterator[str]:
    while True:
        key = sys.stdin.read(1)
        yield key + sys.stdin.read(2) if key == "\x1b" else key


def _lines() -> Iterator[str]:
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.rstrip("\n")


def _chosen(written: Iterator[str], lookup: Mapping[int, str]) -> Iterator[Any]:
    names = {name.lower(): number for number, name in lookup.items()}
    if names:
        print("actions:", ", ".join(lookup.values()), "(q ends)")
    for line in written:
        if line.lower() in _QUIT:
            return
        for word in line.split("||") if names else [line]:
            if not names:
                yield word
            elif (number := _number(word, names)) is not None:
                yield number
            else:
                print(f"{word!r} is no action; there are {', '.join(lookup.values())}")


def _number(word: str, names: Mapping[str, int]) -> int | None:
    name = _ARROWS.get(word) or word.strip().lower()
    if name in names:
        return names[name]
    if _LETTERS.get(name) in names:
        return names[_LETTERS[name]]
    fitting = [known for known in names if name and known.startswith(name)]
    return names[fitting[0]] if len(fitting) == 1 else None
