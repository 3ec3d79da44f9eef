"""`paceline train`: trains independent learners in one world."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from paceline.cli._training import Asked
    from paceline.train.train import Watcher
    from paceline.train.trainer import Trainer

_HELP = """Train independent learners in one world: in parallel, and the very result of one process.

\b
Examples:
  paceline train treasure_hunt --epochs 200
  paceline train treasure_hunt,agents=8 --learners dqn,hidden=128 --epochs 500 --train-interval 2 --lag 1 -j 2
  paceline train hunt.yaml --seed 7 --out runs/hunt
  paceline train treasure_hunt --epochs 200 --seeds 3 -j 2
  paceline train my_world.py:make_env --learners my_learner.py:Learner --epochs 50 --json
  paceline train --resume runs/hunt

\b
NAME:         what `paceline eval -m` takes: a name of `paceline missions`, pz:module, file.py:factory, …
CONFIG.yaml:  mission, learners (for all, or a mapping by agent), epochs, and what else `paceline.train`
              takes, by the names of its keywords; flags count before it
LEARNERS:     dqn or ppo with options (dqn,hidden=128), file.py:Class, package.module:Class

\b
Exit codes:
  0  everything was trained
  2  something was asked that makes no sense; nothing has been trained
  3  an update failed: the training has stopped there, or the agent went on with its last weights (freeze)
  130  interrupted, by Ctrl-C or SIGTERM; --resume goes on, to the same result
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("train", help=_HELP)(train)


def train(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|CONFIG.yaml", help="What is trained; --resume alone knows it.")
    ] = None,
    learners: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The learner of every agent.  [default: dqn]")
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Resets of the world, each with its turns.")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Root of everything random.  [default: 0]")
    ] = None,
    train_interval: Annotated[
        int | None, typer.Option(metavar="N", help="After how many epochs updates are due.  [default: 1]")
    ] = None,
    updates_per_interval: Annotated[
        int | None, typer.Option(metavar="N", help="How many of each agent are due then.  [default: 1]")
    ] = None,
    warmup: Annotated[
        int | None, typer.Option(metavar="ROWS", help="Rows of an agent before its first update.  [default: 0]")
    ] = None,
    capacity: Annotated[
        int | None, typer.Option(metavar="ROWS", help="Rows of each agent that are kept.  [default: all]")
    ] = None,
    lag: Annotated[
        int | None, typer.Option(metavar="N", help="Updates that the acting weights are behind.  [default: 0]")
    ] = None,
    worlds: Annotated[int | None, typer.Option(metavar="N", help="Worlds side by side.  [default: 1]")] = None,
    max_turns: Annotated[
        int | None, typer.Option(metavar="N", help="The most turns of an epoch.  [default: the world's]")
    ] = None,
    priority: Annotated[
        list[str] | None, typer.Option(metavar="AGENT=SHARE", help="An agent's share of updates; may be repeated.")
    ] = None,
    on_failure: Annotated[
        str | None, typer.Option(help="What a failed update means: fail, retry, freeze.  [default: fail]")
    ] = None,
    deadline: Annotated[float | None, typer.Option(metavar="S", help="Seconds that an update may take.")] = None,
    free_running: Annotated[
        bool, typer.Option("--free-running", help="Act with the newest weights there are; not reproducible.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="For networks: auto, cpu, cuda, mps; part of the result.  [default: cpu]")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Where learners learn: auto, inline, thread, process, ray.  [default: auto]")
    ] = None,
    jobs: Annotated[str | None, typer.Option("-j", "--jobs", metavar="N|auto", help="Workers; 0: here.")] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Train K seeds from --seed on; with -j side by side.")
    ] = None,
    turns: Annotated[
        str | None, typer.Option(metavar="csv|parquet", help="Keep a row for each turn of each agent.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files of TensorBoard.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go.  [default: runs/train-DATE-TIME]")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Whether results are kept.")] = True,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with a run that was stopped; the rest need not be given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value, and nothing else.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write where the time went, for Perfetto.")] = None,
) -> int:
    """Trains, and prints what came out."""
    from paceline.cli._running import fresh_directory, only_the_result
    from paceline.cli._training import asked_before, asked_now, shares

    given: dict[str, Any] = {
        "mission": name,
        "learners": learners,
        "epochs": epochs,
        "seed": seed,
        "train_interval": train_interval,
        "updates_per_interval": updates_per_interval,
        "warmup": warmup,
        "capacity": capacity,
        "lag": lag,
        "worlds": worlds,
        "max_turns": max_turns,
        "priority": shares(priority),
        "on_failure": on_failure,
        "deadline": deadline,
        "free_running": free_running or None,
        "device": device,
        "plan": plan,
        "jobs": jobs,
        "seeds": seeds,
        "turns": turns,
        "tensorboard": tensorboard or None,
    }
    _check_together(out, save, resume, seeds, trace, {"--turns": turns is not None, "--tensorboard": tensorboard})
    with only_the_result(as_json) as page:
        trace = trace and trace.resolve()  # before the directory is changed to the one in which a run was begun
        if resume is not None:
            resume = resume.resolve()
            asked = asked_before(resume, given)
            where: Path | None = resume
        else:
            asked, said = asked_now(given)
            where = (out or (Path(said) if said else fresh_directory("train"))).resolve() if save else None
        return _Run(asked, where, resume is not None, page if as_json else None).go(trace)


def _check_together(
    out: Path | None, save: bool, resume: Path | None, seeds: int | None, trace: Path | None, kept: dict[str, bool]
) -> None:
    """Says which of the options exclude each other."""
    from paceline.errors import BadInput

    if resume is not None and out is not None:
        raise BadInput("--resume and --out both say where the results go: give one of them")
    if not save and (resume is not None or out is not None):
        raise BadInput(f"--no-save and {'--out' if out else '--resume'} contradict each other: give one of them")
    for name in (name for name, wanted in kept.items() if wanted and not save):
        raise BadInput(f"{name} needs a directory: leave --no-save away")
    if seeds is not None and trace is not None:
        raise BadInput("--trace and --seeds do not go together: a trace is of one training")


class _Run:
    """A call of the command.

    Args:
        asked: What is trained.
        out: Where results go; None: nowhere.
        resume: Whether to go on with what is there.
        page: For JSON; None: a table is printed.
    """

    def __init__(self, asked: Asked, out: Path | None, resume: bool, page: TextIO | None) -> None:
        self._asked, self._out, self._resume, self._page = asked, out, resume, page
        self._trainer: Trainer | None = None  # as it was seen last
        self._done: dict[int, dict[str, Any]] = {}  # seed → what came of it, of several

    def go(self, trace: Path | None) -> int:
        """Trains, and gives the exit code."""
        from paceline.cli._ending import sigterm_as_ctrl_c
        from paceline.errors import BadInput, PacelineError

        try:
            with sigterm_as_ctrl_c():
                return self._of_one(trace) if self._asked.seeds is None else self._of_seeds()
        except KeyboardInterrupt:
            self._say_goodbye("interrupted")
            return 130
        except BadInput:
            raise
        except PacelineError as error:
            print("\n  ".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
            self._say_goodbye("stopped")
            return 3

    def _of_one(self, trace: Path | None) -> int:
        from paceline.cli._progress import TrainingProgress
        from paceline.cli._trained import show_training
        from paceline.cli._training import trained
        from paceline.engine import Trace

        spans, place = None if trace is None else Trace(), self._asked.place
        try:
            with TrainingProgress() as progress:
                watcher = self._watcher(progress.tell)
                training = trained(self._asked, self._out, place, resume=self._resume, watcher=watcher, trace=spans)
        finally:
            if spans is not None and trace is not None:
                spans.write(trace)
        self._print(training.as_dict()) if self._page is not None else show_training(training)
        return 3 if training.frozen else 0

    def _of_seeds(self) -> int:
        from paceline.cli._trained import draw_all, show_seeds
        from paceline.cli._training import begin_seeds

        if self._out is not None and not self._resume:
            begin_seeds(self._asked, self._out)
        self._train_seeds()
        found = [self._done[seed] for seed in self._asked.numbers]
        if self._out is not None:
            draw_all(found, self._out)
        self._print(found) if self._page is not None else show_seeds(found, self._out)
        return 3 if any(one["frozen"] for one in found) else 0

    def _train_seeds(self) -> None:
        from paceline.cli._progress import TrainingProgress
        from paceline.cli._training import trained_seeds

        with ExitStack() as stack:

            def watcher(seed: int) -> Watcher:
                stack.close()  # one bar after another
                return self._watcher(stack.enter_context(TrainingProgress(f"seed {seed}")).tell)

            for seed, result in trained_seeds(self._asked, self._out, watcher):
                self._done[seed] = result
                if sys.stderr.isatty():
                    print(f"seed {seed}: {len(self._done)} of {self._asked.seeds} done", file=sys.stderr)

    def _watcher(self, tell: Watcher) -> Watcher:
        def watch(trainer: Trainer) -> None:
            self._trainer = trainer
            tell(trainer)

        return watch

    def _print(self, value: Any) -> None:
        from paceline.cli._trained import NO_CURVES
        from paceline.report.curves import can_draw

        print(json.dumps(value), file=self._page)
        if self._out is not None:
            print(f"results: {self._out}{'' if can_draw() else f' ({NO_CURVES})'}", file=sys.stderr)

    def _say_goodbye(self, how: str) -> None:
        """What is on disk, and how to go on."""
        if self._out is None:
            print(f"{how}; nothing was kept (--no-save)", file=sys.stderr)
        elif not (self._out / "plan.json").exists():
            print(f"{how} before anything was trained", file=sys.stderr)
        else:
            print(f"{how}; {self._kept(self._out)}", file=sys.stderr)
            print(f"go on with: paceline train --resume {shlex.quote(str(self._out))}", file=sys.stderr)

    def _kept(self, out: Path) -> str:
        from paceline.train.checkpoints import FILE

        if self._asked.seeds is not None:
            return f"{len(self._done)} of {self._asked.seeds} seeds are done, and checkpoints of others on disk: {out}"
        if self._trainer is not None and self._trainer.saved:
            epochs = self._trainer.job.timetable.epochs
            return f"on disk is the checkpoint after {self._trainer.saved} of {epochs} epochs: {out}"
        if (out / FILE).exists():
            return f"the last checkpoint is on disk: {out}"
        return f"there is no checkpoint yet, only the plan: {out}"
