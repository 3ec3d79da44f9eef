"""What `paceline meta` is asked, kept in plan.json so that `--resume DIR` can ask the same again; and the training.

flags and CONFIG.yaml ──► MetaAsked ──► plan.json, with the directory ──► --resume ──► MetaAsked
                              └───────► meta, of one seed or of each, and what it leaves in the run's directory
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.cli._resuming import validated
from paceline.cli._seeds import AskedOfTraining, check_names, each_seed
from paceline.engine import Plan, Trace
from paceline.errors import BadInput
from paceline.evaluate.given import chosen_device
from paceline.evaluate.statistics import summarize
from paceline.meta import MetaTraining, meta
from paceline.meta.references import NAMES
from paceline.records import PLAN, begin_run
from paceline.report.board import MetaBoard
from paceline.report.curves import can_draw, draw_returns

if TYPE_CHECKING:
    from paceline.meta.config import Read
    from paceline.meta.loop import Watcher

FILES = (".yaml", ".yml")
_KEPT = "meta"  # not what other commands can go on with
_PLACE = ("plan", "jobs")  # they say one thing together: half of it would contradict what is given now


@dataclass(frozen=True)
class MetaAsked(AskedOfTraining):
    """What `paceline meta` is asked; see `AskedOfTraining`."""

    def __post_init__(self) -> None:
        if "env" not in self.settings:
            raise BadInput("say what is learned: ENV-ID or CONFIG.yaml, or --resume DIR for a run that was stopped")
        check_names(self.settings, meta)

    def about(self) -> dict[str, Any]:
        """For plan.json."""
        return {_KEPT: asdict(self), "directory": os.getcwd()}


@dataclass(frozen=True)
class Given:
    """What is asked now.

    Attributes:
        asked: It.
        out: Where the results go, if a file says so.
        notes: What there is to tell of a file.
    """

    asked: MetaAsked
    out: str | None = None
    notes: tuple[str, ...] = ()


def given_now(flags: Mapping[str, Any]) -> Given:
    """What is asked by flags, and by a file if the name is that of one; the flags count before it.

    Raises:
        BadInput: something is missing, or makes no sense.
    """
    from paceline.meta.config import Read, read_config  # it reads settings, which take a while to import

    name = flags["env"]
    is_file = name is not None and Path(name).suffix in FILES
    if is_file:
        file = read_config(Path(name), flags["agent"], flags["ppo"])
    else:
        file = Read({} if name is None else {"env": name})
    beside = {"env", "seeds", "tensorboard", *_PLACE, *(("agent", "ppo") if is_file else ())}
    mine = {name: value for name, value in flags.items() if name not in beside and value is not None}
    if {"num_iters", "n_env_steps_total"} & set(mine):
        for name in ("num_iters", "n_env_steps_total"):
            file.settings.pop(name, None)  # a flag of the one counts before the other in a file
    settings = {**file.settings, **mine}
    if "device" in settings:
        settings["device"] = chosen_device(settings["device"])
    place = {name: flags[name] for name in _PLACE if flags[name] is not None}
    if file.plan is not None and not place:
        place = {"jobs": str(file.plan)} if isinstance(file.plan, int) else {"plan": file.plan}
    asked = MetaAsked(
        settings, seeds=flags["seeds"], tensorboard=bool(flags["tensorboard"] or file.tensorboard), **place
    )
    return Given(asked, file.out, tuple(_notes(flags["env"], file)))


def _notes(name: str, file: Read) -> Iterator[str]:
    if file.gaps:
        lines = ", ".join(map(str, file.gaps))
        yield f"{name}, line {lines}: '...' is passed over; what is not said there is as by default"
    if file.without_effect:
        unused = ", ".join(file.without_effect)
        yield f"without effect in {name}, being for other learners or agents: {unused}"


def asked_before(run: Path, plan: Mapping[str, Any], flags: Mapping[str, Any], home: Path) -> MetaAsked:
    """What a run on disk was asked, by its plan. Files are found from `home`.

    Raises:
        BadInput: the run does not say it, or something else is asked now.
    """
    known, directory = plan.get(_KEPT), plan.get("directory")
    if not isinstance(known, dict) or not isinstance(directory, str):
        raise BadInput(f"{run} was not begun by `paceline meta`, so it cannot be continued here")
    before = validated(MetaAsked, known, run)
    usual = {name: each.default for name, each in signature(meta).parameters.items()}
    was = {**usual, **before.settings, "seeds": before.seeds}
    for name, value in flags.items():
        if value is not None and name not in (*_PLACE, "tensorboard") and was.get(name) != value:
            raise BadInput(f"{run} was asked {name}={was.get(name)!r}, and now {value!r}: leave it away, or begin anew")
    os.chdir(home)
    place = {name: flags[name] for name in _PLACE if flags[name] is not None}
    if place:
        before = replace(before, plan=place.get("plan", "auto"), jobs=place.get("jobs", "auto"))
    return replace(before, tensorboard=before.tensorboard or bool(flags["tensorboard"]))


# -- the training --------------------------------------------------------------------------------------------


def learned(
    asked: MetaAsked,
    out: Path | None,
    plan: Plan,
    *,
    resume: bool = False,
    trust: bool = False,
    watcher: Watcher | None = None,
    trace: Trace | None = None,
) -> MetaTraining:
    """Trains, or goes on with what is in `out`; what is asked beside the result is kept there, too."""
    board = MetaBoard(out / "tensorboard") if asked.tensorboard and out is not None else None

    def watch(loop: Any) -> None:
        for each in (watcher, None if board is None else board.tell):
            if each is not None:
                each(loop)

    with ExitStack() as stack:
        if board is not None:
            stack.callback(board.close)
        about = asked.about()
        given = {**asked.settings, "plan": plan, "out": out, "resume": resume, "trust": trust, "trace": trace}
        training = meta(**given, watcher=watch, asked=about)
        if board is not None:
            board.write(training.rows)
    if out is not None:
        draw_all([training.as_dict()], out)
    return training


def begin_seeds(asked: MetaAsked, out: Path) -> None:
    """Makes the directory of several seeds; each has one of its own in it.

    Raises:
        BadInput: it holds a run.
    """
    begin_run(out, {"identity": {"job": "meta seeds"}, **asked.about()})


def learned_seeds(
    asked: MetaAsked, out: Path | None, watcher: Callable[[int], Watcher | None], *, trust: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Trains each seed, or goes on with it; see `each_seed`."""
    yield from each_seed(partial(_of_seed, asked, out, trust), asked.numbers, asked.place, watcher)


def _of_seed(
    asked: MetaAsked, out: Path | None, trust: bool, plan: Plan, watcher: Watcher | None, seed: int
) -> dict[str, Any]:
    where = None if out is None else out / f"seed-{seed}"
    begun = where is not None and (where / PLAN).exists()
    return learned(asked.of_seed(seed), where, plan, resume=begun, trust=trust, watcher=watcher).as_dict()


def draw_all(found: list[dict[str, Any]], out: Path) -> None:
    """Draws the returns on unseen tasks over seeds, beside what others get, if that is possible here."""
    if not can_draw():
        return
    first = found[0]
    points = min(len(one["curve"]) for one in found)  # rollouts that end early make seeds differ in length
    steps = [point[0] for point in first["curve"][:points]]
    totals = [[sum(point[1:]) for point in one["curve"][:points]] for one in found]
    others = first["references"] or {"random": first["return_random_episodes"]}
    lines = {NAMES[name]: sum(means) for name, means in others.items()}
    about = f"return of the {len(first['return_eval_episodes'])} episodes of an evaluation task"
    draw_returns({first["agent"]: (steps, totals)}, lines, lambda row: summarize(row).ci, out / "curves.png", about)
