"""`paceline train`: trains independent learners in one world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli._ending import sigterm_as_ctrl_c

_HELP = """Train independent learners in one world: in parallel, and the very result of one process.

\b
Examples:
  paceline train treasure_hunt --epochs 200
  paceline train treasure_hunt,agents=8 --learners dqn,hidden=128 --epochs 500 --train-interval 2 --lag 1 -j 2
  paceline train hunt.yaml --seed 7 --out runs/hunt
  paceline train treasure_hunt --epochs 200 --seeds 3 -j 2
  paceline train treasure_hunt --turn ordered --epochs 200
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
  3  an update failed, or the world or a policy raised: the training has stopped there, or the agent went on
     with its last weights (freeze)
  130  interrupted, by Ctrl-C or SIGTERM; --resume goes on, to the same result
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("train", help=_HELP)(train)


@sigterm_as_ctrl_c()
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
    turn: Annotated[
        str | None,
        typer.Option(
            metavar="simultaneous|ordered", help="Whether agents move at once or in order.  [default: simultaneous]"
        ),
    ] = None,
    speculate: Annotated[
        bool | None,
        typer.Option("--speculate/--no-speculate", help="Answer ordered agents ahead.  [default: where it pays]"),
    ] = None,
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
    lanes: Annotated[
        int | None, typer.Option(metavar="N", help="Rows of a batch of policies that do not learn.  [default: 8]")
    ] = None,
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
    trust: Annotated[
        bool,
        typer.Option("--trust", help="With --resume: run the code that the run names, wherever it is from."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value, and nothing else.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write where the time went, for Perfetto.")] = None,
) -> int:
    """Trains, and prints what came out."""
    from paceline.cli._running import fresh_directory, only_the_result, whole
    from paceline.cli._saving import check_saving
    from paceline.cli._train_call import TrainCall
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
        "turn": turn,
        "speculate": speculate,
        "max_turns": max_turns,
        "priority": shares(priority),
        "on_failure": on_failure,
        "deadline": deadline,
        "free_running": free_running or None,
        "lanes": lanes,
        "device": device,
        "plan": plan,
        "jobs": jobs,
        "seeds": seeds,
        "turns": turns,
        "tensorboard": tensorboard or None,
    }
    check_saving(out, save, resume, seeds, trace, {"--turns": turns is not None, "--tensorboard": tensorboard})
    with only_the_result(as_json) as page:
        trace = trace and whole(trace)  # before the directory is changed to the one in which a run was begun
        if resume is not None:
            from paceline.cli._trust import check_trusted

            resume = whole(resume)
            begun, home = check_trusted(resume, trust)
            asked = asked_before(resume, begun, given, home)
            where: Path | None = resume
        else:
            asked, said = asked_now(given)
            where = whole(out or (Path(said) if said else fresh_directory("train"))) if save else None
        return TrainCall(asked, where, resume is not None, page if as_json else None, trust=trust).go(trace)
