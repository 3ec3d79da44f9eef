"""What `paceline train` is asked, kept in plan.json so that `--resume DIR` can ask the same again; and the training.

flags and CONFIG.yaml ──► Asked ──► plan.json, with the directory ──► --resume ──► Asked
                            └─────► train, of one seed or of each, and what it leaves in the run's directory
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from paceline.cli._resuming import validated
from paceline.cli._seeds import AskedOfTraining, check_names, each_seed
from paceline.engine import Plan, Trace
from paceline.errors import BadInput
from paceline.evaluate.given import chosen_device
from paceline.records import PLAN, begin_run
from paceline.report.board import Board
from paceline.report.curves import can_draw, draw_agents
from paceline.run import Options
from paceline.run_files import unfollowed
from paceline.train import Training, train
from paceline.train.train import Watcher
from paceline.train.turns import FORMS, TurnLog

LOG = "train.log"
FILES = (".yaml", ".yml")
_KEPT = "train"  # not "asked", "command" or "collect": those are what other commands can go on with
_NOT_IN_FILES = ("resume", "trust", "trace", "watcher", "recorder", "asked")
_PLACE = ("plan", "jobs")  # they say one thing together: half of it would contradict what is given now


@dataclass(frozen=True)
class Asked(AskedOfTraining):
    """What `paceline train` is asked; see `AskedOfTraining`.

    Attributes:
        turns: As what the turns are kept; None: they are not.
    """

    turns: str | None = None

    def __post_init__(self) -> None:
        if "mission" not in self.settings:
            raise BadInput("say what is trained: NAME or CONFIG.yaml, or --resume DIR for a run that was stopped")
        if "epochs" not in self.settings:
            raise BadInput("say how long to train: --epochs N, or epochs in CONFIG.yaml")
        check_names(self.settings, train)
        if self.turns is not None and self.turns not in FORMS:
            raise BadInput(f"--turns {self.turns}: give {' or '.join(FORMS)}")

    def about(self) -> dict[str, Any]:
        """For plan.json."""
        return {_KEPT: asdict(self), "directory": os.getcwd()}


def asked_now(given: Mapping[str, Any]) -> tuple[Asked, str | None]:
    """What is asked by flags, and by a file if the name is that of one; the flags count before it.

    Returns:
        It, and where the results go if the file says so.

    Raises:
        BadInput: something is missing, or makes no sense.
    """
    settings, place, out = _given(given)
    beside = {name: given[name] for name in ("seeds", "turns", "tensorboard") if given[name] is not None}
    return Asked(settings, **place, **beside), out


def asked_before(run: Path, plan: Mapping[str, Any], given: Mapping[str, Any], home: Path) -> Asked:
    """What a run on disk was asked, by its plan, where nothing else is given. Files are found from `home`.

    Whether it is still the same run is looked at by `train`.

    Raises:
        BadInput: the run does not say it, or cannot go on with what is given.
    """
    known, directory = plan.get(_KEPT), plan.get("directory")
    if not isinstance(known, dict) or not isinstance(directory, str):
        raise BadInput(f"{run} was not begun by `paceline train`, so it cannot be continued here")
    before = validated(Asked, known, run)
    settings, place, _ = _given(given)
    _check_same(run, before, {**settings, "seeds": given["seeds"], "turns": given["turns"]})
    os.chdir(home)
    if place:
        before = replace(before, plan=place.get("plan", "auto"), jobs=place.get("jobs", "auto"))
    board = before.tensorboard or bool(given["tensorboard"])
    return replace(before, settings={**before.settings, **settings}, tensorboard=board)


def _given(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """What flags and a file say: keywords of `train`, the flags of the place, and the directory that the file names."""
    beside = {"mission", "seeds", "turns", "tensorboard", *_PLACE}
    settings = _from_file(given["mission"])
    plan, out = settings.pop("plan", None), settings.pop("out", None)
    place = {name: given[name] for name in _PLACE if given[name] is not None}
    if plan is not None and not place:
        place = {"jobs": str(plan)} if isinstance(plan, int) else {"plan": plan}
    settings |= {name: value for name, value in given.items() if name not in beside and value is not None}
    if "device" in settings:
        settings["device"] = chosen_device(settings["device"])
    return settings, place, out


def _from_file(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if Path(name).suffix not in FILES:
        return {"mission": name}
    found = Options(train, _NOT_IN_FILES).read(Path(name), "mission and epochs")
    if "mission" not in found:
        raise BadInput(f"{name} has no mission: say what world is trained in, mission: treasure_hunt say")
    return found


def _check_same(run: Path, before: Asked, now: Mapping[str, Any]) -> None:
    """What `train` cannot see: options beside its own, and the settings of seeds that are not begun yet."""
    known = {"seeds": before.seeds, "turns": before.turns, **(before.settings if before.seeds else {})}
    for name, value in now.items():
        if value is None or name in ("deadline", "speculate") or not (name in known or before.seeds):
            continue
        if known.get(name) != value:
            was = f"{name}={known[name]!r}" if known.get(name) is not None else f"no {name}"
            raise BadInput(f"{run} was asked {was}, and now {value!r}: leave it away, or begin anew")


def shares(words: list[str] | None) -> dict[str, float] | None:
    """Agent → share, of what `--priority` was given.

    Raises:
        BadInput: a word is no agent=share.
    """
    found = {}
    for word in words or ():
        agent, _, share = word.rpartition("=")
        try:
            found[agent] = float(share)
        except ValueError:
            agent = ""
        if not agent:
            raise BadInput(f"--priority {word}: give agent=share, agent_0=0.5 say")
    return found or None


# -- the training --------------------------------------------------------------------------------------------


def trained(
    asked: Asked,
    out: Path | None,
    plan: Plan,
    *,
    resume: bool = False,
    trust: bool = False,
    watcher: Watcher | None = None,
    trace: Trace | None = None,
) -> Training:
    """Trains, or goes on with what is in `out`; what is asked beside the result is kept there, too."""
    board = Board(out / "tensorboard") if asked.tensorboard and out is not None else None
    turns = TurnLog(out, asked.turns) if asked.turns is not None and out is not None else None
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(_logged(out / LOG))
        for each in (board, turns):
            if each is not None:
                stack.callback(each.close)
        training = train(
            **asked.settings,
            plan=plan,
            out=out,
            resume=resume,
            trust=trust,
            trace=trace,
            watcher=_both(watcher, None if board is None else board.tell),
            recorder=turns,
            asked=asked.about(),
        )
        if board is not None:
            board.finish(training)
        if turns is not None:
            turns.finish()
    if out is not None and can_draw():
        draw_agents(training.rewards, training.agents, out / "curves.png")
    return training


class _Log(logging.FileHandler):
    """The file of a log. Where it cannot be written, on a full disk, before there is a directory or through a link, the
    training does without it."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=unfollowed)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line; opens the file first if it is not open yet."""
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, the name is logging's
        """Says nothing: what is wrong is told when results are written."""


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Has a file keep what is logged while the body runs; warnings are shown on stderr as they are without it."""
    logger = logging.getLogger("paceline")
    file = _Log(path, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(processName)s %(process)d: %(message)s"))
    added: list[logging.Handler] = [file]
    if not logger.hasHandlers() and logging.lastResort is not None:
        added.append(logging.lastResort)
    before = logger.level
    logger.setLevel(logging.INFO)
    for handler in added:
        logger.addHandler(handler)
    try:
        yield
    except Exception:
        if path.exists():  # otherwise nothing has begun
            logger.info("the training has stopped", exc_info=True)
        raise
    finally:
        for handler in added:
            logger.removeHandler(handler)
        logger.setLevel(before)
        with suppress(OSError):
            file.close()


def _both(*watchers: Watcher | None) -> Watcher:
    def watch(trainer: Any) -> None:
        for watcher in watchers:
            if watcher is not None:
                watcher(trainer)

    return watch


def begin_seeds(asked: Asked, out: Path) -> None:
    """Makes the directory of several seeds; each has one of its own in it.

    Raises:
        BadInput: it holds a run.
    """
    begin_run(out, {"identity": {"job": "train seeds"}, **asked.about()})


def trained_seeds(
    asked: Asked, out: Path | None, watcher: Callable[[int], Watcher | None], *, trust: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Trains each seed, or goes on with it; with workers asked for, seeds side by side, each in a process of its own.

    Yields:
        A seed and what came of it, as JSON has it, as seeds finish.
    """
    yield from each_seed(partial(_of_seed, asked, out, trust), asked.numbers, asked.place, watcher)


def _of_seed(
    asked: Asked, out: Path | None, trust: bool, plan: Plan, watcher: Watcher | None, seed: int
) -> dict[str, Any]:
    where = None if out is None else out / f"seed-{seed}"
    begun = where is not None and (where / PLAN).exists()
    training = trained(asked.of_seed(seed), where, plan, resume=begun, trust=trust, watcher=watcher)
    return {"seed": seed, **training.as_dict()}
