"""`paceline collect`: plays rollouts for a learner, and keeps them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli._ending import sigterm_as_ctrl_c
from paceline.cli._output import OUTPUT

if TYPE_CHECKING:
    from paceline.cli._collected import Collected
    from paceline.cli._collecting import Asked
    from paceline.cli._progress import RolloutProgress
    from paceline.collect import Collection, Collector
    from paceline.engine import Plan, Trace

_HELP = """Collect rollouts of an environment: in parallel, and the very rollouts of one after another.

\b
Examples:
  paceline collect CartPole-v1 --random -n 100
  paceline collect CartPole-v1 -p my_policy.py:Agent,weights=net.pt -n 100 -j 4 --out runs/mine
  paceline collect PointRobot-v0 -p memory,cell=lstm -n 64 --tasks train --episodes 2 --verify
  paceline collect AntDir-v0 -p markov,weights=net.npz --tasks 0.5,-0.5,1 --horizon 100 --json
  paceline rerun runs/mine 7

\b
ENV:      what `paceline eval -m` takes, or an id of Gymnasium: gym:ID, ID, pz:module, file.py:factory, …
POLICY:   what `paceline eval -p` takes, or a policy with a network: markov, memory, memory_markov,
          with options (memory,cell=lstm,memory=128,hidden=64x64,weights=net.npz,sampled=false).
          paceline:memory is the scripted policy of that name.
TASKS:    train or eval (the sets of a world that has them), draw (its whole distribution),
          numbers (0.5,-0.5), a JSON list ([[0.5,0.5],[1,0]]), or a JSON file; dealt in order

\b
Exit codes:
  0  everything was played
  1  --verify found a rollout that came out differently
  2  something was asked that makes no sense; nothing has been played
  3  some rollouts failed; the others are kept
  130  interrupted, by Ctrl-C or SIGTERM; what is done is kept
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("collect", help=_HELP)(collect)


@sigterm_as_ctrl_c()
def collect(
    env: Annotated[str, typer.Argument(metavar="ENV", help="What is played.")],
    policy: Annotated[str | None, typer.Option("-p", "--policy", help="What plays.")] = None,
    rollouts: Annotated[
        int | None,
        typer.Option("-n", "--rollouts", metavar="N", help="How many.  [default: one per listed task, or 10]"),
    ] = None,
    tasks: Annotated[str | None, typer.Option(metavar="TASKS", help="What each rollout is asked to set up.")] = None,
    episodes: Annotated[int, typer.Option("-e", "--episodes", metavar="K", help="Episodes of each rollout.")] = 1,
    horizon: Annotated[int | None, typer.Option(metavar="H", help="The most steps of an episode.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Draw actions from the action space; no policy.")] = False,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="One environment serves many rollouts: reset() makes it as new.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Root of everything random.")] = 0,
    lanes: Annotated[int, typer.Option(metavar="N", help="Rows of a forward pass; part of the result.")] = 8,
    device: Annotated[str, typer.Option(help="For networks: auto, cpu, cuda, mps; part of the result.")] = "cpu",
    jobs: Annotated[str, typer.Option("-j", "--jobs", metavar="N|auto", help="Workers; 0: here.")] = "auto",
    plan: Annotated[str, typer.Option(help="Where workers run: auto, process, thread, ray, inline.")] = "auto",
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Take data only from workers: nothing they send can run code here.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Play all again with other workers and the policy elsewhere, and compare.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go.  [default: runs/collect-DATE-TIME]")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Whether results are kept.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write where the time went, for Perfetto.")] = None,
) -> int:
    """Plays, and prints what came out."""
    from paceline.cli._collected import Collected, show_collected
    from paceline.cli._collecting import Asked
    from paceline.cli._running import fresh_directory, only_the_result, plan_of, whole
    from paceline.cli._tracing import TraceFile
    from paceline.errors import BadInput, NotKept
    from paceline.evaluate.given import chosen_device

    if out is not None and not save:
        raise BadInput("--no-save and --out contradict each other: results are kept, or they are not: give one of them")
    asked = Asked(env, policy, rollouts, tasks, episodes, horizon, random, reuse, seed, lanes, chosen_device(device))
    where = whole(out or fresh_directory("collect")) if save else None
    OUTPUT.results, file = where, TraceFile(trace)
    with only_the_result(as_json) as page:
        try:
            found = _collected(asked, plan_of(plan, jobs, untrusted), where, verify, file.trace)
        except NotKept as error:
            if error.results is not None:
                shown = Collected(asked.env, error.results)
                print(json.dumps(shown.as_dict()), file=page) if as_json else show_collected(shown)
            raise
        finally:
            file.write()
        if found is None:
            return 130
        print(json.dumps(found.as_dict()), file=page) if as_json else show_collected(found)
        return found.code


def _collected(asked: Asked, plan: Plan, out: Path | None, verify: bool, trace: Trace | None) -> Collected | None:
    """Plays and, if wanted, plays again; None if it was interrupted."""
    from paceline.cli._collected import Collected
    from paceline.cli._collecting import elsewhere, in_words, verified
    from paceline.cli._progress import RolloutProgress

    progress = RolloutProgress(asked.count())
    try:
        with asked.collector(plan, trace) as collector, progress:
            collection = _played(collector, asked, progress, out)
        found = Collected(asked.env, collection, collector.reuses, out)
        if verify:
            place = elsewhere(collection.plan)
            found.verified, found.again = verified(asked, collection, place), in_words(place)
        return found
    except KeyboardInterrupt:
        _say_goodbye(progress.done, asked.count(), out)
        return None


def _played(collector: Collector, asked: Asked, progress: RolloutProgress, out: Path | None) -> Collection:
    """The rollouts; those that failed are among them."""
    from paceline.errors import RolloutsFailed

    try:
        return collector.collect(asked.count(), iteration=0, watcher=progress.tell, out=out, about=asked.about())
    except RolloutsFailed as error:
        found: Collection = error.collection
        return found


def _say_goodbye(done: int, count: int, out: Path | None) -> None:
    kept = f"{done} of {count} rollouts are kept: {out}" if out is not None else "nothing was kept (--no-save)"
    kept = kept if done else f"none of {count} rollouts had ended"
    print(f"interrupted; {kept}", file=sys.stderr)
