"""`paceline meta`: trains agents that learn to learn."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli._ending import sigterm_as_ctrl_c

_HELP = """Train an agent on many tasks of a world, and try it on tasks that it has not learned on.

\b
Examples:
  paceline meta PointRobot-H20-v0
  paceline meta PointRobot-H20-v0 --agent memory,cell=lstm --seed 1 --json
  paceline meta PointRobot-H20-v0 --agent oracle --seeds 3 -j 2 --out runs/oracle
  paceline meta AntDir2D-v0 --num-eval-tasks 20 --num-rollouts-per-iter 12 -j 6
  paceline meta config.yaml --num-iters 100
  paceline meta --resume runs/oracle

\b
ENV-ID:       a world with tasks: an id of Gymnasium, file.py:factory, package.module:factory
CONFIG.yaml:  sections env (env_name, max_rollouts_per_task, num_train_tasks, …), train
              (num_rollouts_per_iter, …), eval and policy, as pomdp-baselines has them; flags count before it
AGENT:        memory (RL²), markov, memory_markov or oracle, with options (memory,cell=lstm,memory=128)

\b
Exit codes:
  0  everything was trained
  2  something was asked that makes no sense; nothing has been played
  3  a rollout or an update failed: the training has stopped there
  130  interrupted, by Ctrl-C or SIGTERM; --resume goes on, to the same result
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("meta", help=_HELP)(meta)


@sigterm_as_ctrl_c()
def meta(
    env: Annotated[
        str | None, typer.Argument(metavar="ENV-ID|CONFIG.yaml", help="What is learned; --resume alone knows it.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Who learns.  [default: memory]")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Root of everything random.  [default: 0]")
    ] = None,
    max_rollouts_per_task: Annotated[
        int | None, typer.Option(metavar="K", help="Episodes of a task in a row.  [default: 2]")
    ] = None,
    num_train_tasks: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks to learn on.  [default: drawn for each rollout]")
    ] = None,
    num_eval_tasks: Annotated[int | None, typer.Option(metavar="N", help="Unseen tasks.  [default: 400]")] = None,
    num_rollouts_per_iter: Annotated[
        int | None, typer.Option(metavar="N", help="Rollouts of an iteration.  [default: 64]")
    ] = None,
    num_init_rollouts_pool: Annotated[
        int | None, typer.Option(metavar="N", help="Rollouts of random actions first.  [default: 64]")
    ] = None,
    n_env_steps_total: Annotated[
        float | None, typer.Option(metavar="N", help="Steps after which no iteration begins.")
    ] = None,
    num_iters: Annotated[
        int | None, typer.Option(metavar="N", help="Iterations of full length.  [default: 300]")
    ] = None,
    num_updates_per_iter: Annotated[
        str | None,
        typer.Option(metavar="N", help="Gradient steps of an iteration; 0.01: for each env step.  [default: 16]"),
    ] = None,
    log_interval: Annotated[
        int | None, typer.Option(metavar="N", help="Iterations between evaluations.  [default: ten in all]")
    ] = None,
    ppo: Annotated[str | None, typer.Option(metavar="KEY=VALUE,…", help="How it learns: lr=0.001,gamma=0.99.")] = None,
    lag: Annotated[
        int | None, typer.Option(metavar="N", help="Updates that collecting weights are behind: 0 or 1.  [default: 0]")
    ] = None,
    lanes: Annotated[
        int | None, typer.Option(metavar="N", help="Rows of a forward pass; part of the result.  [default: 32]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For networks: auto, cpu, cuda, mps; part of the result.  [default: cpu]")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Where rollouts are played: auto, inline, process, thread, ray.  [default: auto]")
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option("-j", "--jobs", "--num-parallel-workers", metavar="N|auto", help="Workers; 0: here."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Train K seeds from --seed on; with -j side by side.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write event files of TensorBoard.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go.  [default: runs/meta-DATE-TIME]")
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
    from paceline.cli._meta_asked import asked_before, given_now
    from paceline.cli._meta_call import MetaCall
    from paceline.cli._running import fresh_directory, only_the_result, whole
    from paceline.cli._saving import check_saving
    from paceline.options import value_of

    flags: dict[str, Any] = {
        "env": env,
        "agent": agent,
        "seed": seed,
        "max_rollouts_per_task": max_rollouts_per_task,
        "num_train_tasks": num_train_tasks,
        "num_eval_tasks": num_eval_tasks,
        "num_rollouts_per_iter": num_rollouts_per_iter,
        "num_init_rollouts_pool": num_init_rollouts_pool,
        "n_env_steps_total": n_env_steps_total,
        "num_iters": num_iters,
        "num_updates_per_iter": None if num_updates_per_iter is None else value_of(num_updates_per_iter),
        "log_interval": log_interval,
        "ppo": ppo,
        "lag": lag,
        "lanes": lanes,
        "device": device,
        "plan": plan,
        "jobs": jobs,
        "seeds": seeds,
        "tensorboard": tensorboard or None,
    }
    check_saving(out, save, resume, seeds, trace, {"--tensorboard": tensorboard})
    with only_the_result(as_json) as page:
        trace = trace and whole(trace)  # before the directory is changed to the one in which a run was begun
        if resume is not None:
            from paceline.cli._trust import check_trusted

            resume = whole(resume)
            begun, home = check_trusted(resume, trust)
            asked = asked_before(resume, begun, flags, home)
            where: Path | None = resume
        else:
            given = given_now(flags)
            asked = given.asked
            unkept = {"out": given.out, "eval.log_tensorboard": asked.tensorboard} if not save else {}
            unused = [f"without effect in {env}, as --no-save keeps nothing: {name}" for name in unkept if unkept[name]]
            for note in (*given.notes, *unused):
                print(f"note: {note}", file=sys.stderr)
            where = whole(out or (Path(given.out) if given.out else fresh_directory("meta"))) if save else None
        return MetaCall(asked, where, resume is not None, page if as_json else None, trust=trust).go(trace)
