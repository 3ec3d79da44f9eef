"""`paceline play`: a person plays a text environment in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
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
Where actions have names, a terminal takes single keys, and says which: arrow keys or w a s d for directions (d is
right, not down), a first letter or a number for others. What is piped in is a word per line, or its beginning. Where
actions have no names, write the answer, and press Enter. q ends the game.
"""
_ARROWS = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left"}
_LETTERS = {"w": "up", "a": "left", "s": "down", "d": "right"}
_QUIT = ("q", "quit", "\x03", "\x04")
_DIGITS = "123456789"
_IDLE = ("\n", "\r", " ")  # pressed out of habit: no action, and no mistake


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
    from paceline.catalog.env_options import options_for
    from paceline.catalog.text_envs import check_is_text_env, explanation, takes, written_text_env
    from paceline.errors import BadInput

    if mode not in ("train", "val"):
        raise BadInput(f"--mode {mode}: give train or val")
    factory, options = written_text_env(env_type)
    instruction, legend = explanation(factory)
    with _blamed(env_type):
        env = factory(options_for(factory, options, env_type))
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
    keys = _keys_for(list(lookup.values())) if sys.stdin.isatty() else {}
    if not keys:
        yield _chosen(_lines(), lookup)
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _meant(_pressed(), keys, lookup)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _keys_for(names: Sequence[str]) -> dict[str, str]:
    """Key → the action that it stands for. Empty if there are more actions than keys: then they are written."""
    by_name = {name.lower(): name for name in names}
    keys = {key: by_name[way] for key, way in (*_ARROWS.items(), *_LETTERS.items()) if way in by_name}
    others = [name for name in names if name not in keys.values()]
    firsts = [name[:1].lower() for name in others]
    taken = {*keys, *_QUIT, *_DIGITS}
    for number, (name, first) in enumerate(zip(others, firsts, strict=True)):
        if first and firsts.count(first) == 1 and first not in taken:
            keys[first] = name
        elif number < len(_DIGITS):
            keys[_DIGITS[number]] = name
        else:
            return {}
    return keys


def _described(keys: Mapping[str, str]) -> str:
    letters = [key for key, way in _LETTERS.items() if keys.get(key, "").lower() == way]
    ways = [f"arrow keys or {' '.join(letters)}"] if letters else []
    return ", ".join([*ways, *(f"{key}: {name}" for key, name in keys.items() if key not in (*_ARROWS, *letters))])


def _meant(pressed: Iterator[str], keys: Mapping[str, str], lookup: Mapping[int, str]) -> Iterator[Any]:
    numbers = {name: number for number, name in lookup.items()}
    told = f"keys: {_described(keys)}; q ends"
    print(told)
    for key in pressed:
        if key.lower() in _QUIT:
            return
        known = key if key in keys else key.lower()
        if known in keys:
            yield numbers[keys[known]]
        elif key not in _IDLE:
            print(f"{key!r} is no action; {told}")


def _pressed() -> Iterator[str]:
    while key := sys.stdin.read(1):
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
