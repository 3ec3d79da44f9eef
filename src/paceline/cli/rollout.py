"""`paceline rollout`: lets a policy of text play groups of environments."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli._ending import sigterm_as_ctrl_c
from paceline.cli._output import OUTPUT

if TYPE_CHECKING:
    from paceline.cli._rolling import Asked, Pace
    from paceline.groups import Groups
    from paceline.records import Records

_HELP = """Let a model, or a scripted policy, play groups of text environments; every trajectory at its own pace.

\b
Examples:
  paceline rollout examples/groups.yaml --policy expert
  paceline rollout config.yaml --policy random --mode val --json
  paceline rollout config.yaml --base-url http://127.0.0.1:8000/v1 --model my-model --concurrency 128
  paceline rollout config.yaml --model gpt-x --api-key-env MY_KEY --temperature 0.7 --top-p 0.95 --max-tokens 1024
  paceline rollout config.yaml --policy random,kw.actions=1 --verify
  paceline rollout config.yaml --policy my_policy.py:Agent,kw.depth=3 --out runs/mine
  paceline rollout --resume runs/mine

\b
A policy:  NAME[,kw.key=value …]   random, expert (also: bfs, solver), file.py:Class, package.module:Class
                                   kw.key=value is what it is built with, as for `paceline eval`

\b
The configuration has RAGEN's shape: es_manager, custom_envs, agent_proxy, seed.
Tags that need no entry in custom_envs: SimpleSokoban, LargerSokoban, CoordSokoban, FrozenLake, Bandit, Countdown,
MetamathQA, WebShop, Sudoku, Game2048.

\b
Exit codes:
  0    every trajectory was played
  1    --verify found a trajectory that came out differently
  2    something was asked that makes no sense; nothing has been played
  3    some trajectories failed, or were cut by the clock; the others are kept, and --resume plays these again
  130  interrupted, by Ctrl-C or SIGTERM; what is done is kept, and --resume goes on
"""
_LINES = "trajectories.jsonl"
_CONCURRENCY = 64


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("rollout", help=_HELP)(rollout)


@sigterm_as_ctrl_c()
def rollout(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.yaml", help="What is played; --resume alone knows it.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("-p", "--policy", help="random, expert, file.py:Class, package.module:Class; with ,kw.key=value."),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, OpenAI.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model that the endpoint is asked for.")] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The environment variable that has the key.  [default: OPENAI_API_KEY]"),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(metavar="T", min=0.0, help="For the model.  [default: 1.0]")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(metavar="P", help="For the model: above 0, up to 1.  [default: the endpoint's]")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The most tokens of one answer.  [default: 400]")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Questions under way at once.  [default: 64]")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="Which groups of the configuration: train or val.  [default: train]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of the first group.  [default: the configuration's]")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turns of a trajectory.  [default: agent_proxy.max_turn]")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds after which what is not finished is cut, and says so.")
    ] = None,
    quorum: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Cut the others when this share has finished.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(help="Where environments live: auto, inline, thread, process, ray.  [default: auto]")
    ] = None,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", metavar="N", min=0, help="Workers; 0: here.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go.  [default: runs/rollout-DATE-TIME]")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with a run that was stopped; the rest need not be given.")
    ] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="With --resume: run the code that the run names, wherever it is from."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, instead of a table.")] = False,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Take data only from workers: nothing they send can run code here.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Play all again, on workers if it was here and here if not, and compare.")
    ] = False,
) -> int:
    """Plays what is missing, and shows what came of it."""
    from paceline.cli._resuming import kept
    from paceline.cli._rolling import Pace
    from paceline.groups.asking import asker
    from paceline.groups.turns import check_straggling

    given: dict[str, Any] = {
        "config": None if config is None else str(config),
        "mode": mode,
        "seed": seed,
        "max_turns": max_turns,
        "policy": policy,
        "model": model,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "concurrency": concurrency,
        "deadline": deadline,
        "quorum": quorum,
        "plan": plan,
        "jobs": jobs,
        "untrusted": untrusted or None,
    }
    given, resume = _completed(given, resume, trust)
    check_straggling(given["quorum"], given["deadline"])
    asked = _asked(given)
    pace = Pace(given["concurrency"] or _CONCURRENCY, given["deadline"], given["quorum"])
    with asked.groups(_place(given["plan"], given["jobs"], bool(given["untrusted"]))) as groups:
        found = asked.player.find(groups, pace.concurrency)
        asker(found)  # before anything is written: is it a policy?
        asked = asked.seeded(groups, resume)
        what = {"identity": asked.identity(groups), "files": asked.files(groups, found), **kept(given)}
        records = _records(what, out, resume)
        for note in records.notes:
            print(f"note: {note}", file=sys.stderr)
        try:
            return _play(groups, found, records, asked, pace, as_json, verify)
        finally:
            records.close()


def _completed(given: dict[str, Any], resume: Path | None, trust: bool) -> tuple[dict[str, Any], Path | None]:
    """What is asked for: as given, or with what is not given as it was when the run was begun that goes on now."""
    from paceline.cli._resuming import given_before
    from paceline.cli._running import whole
    from paceline.cli._trust import check_trusted
    from paceline.errors import BadInput

    config = given["config"]
    if resume is None:
        if config is None:
            raise BadInput("say what is played: CONFIG.yaml, or --resume DIR for a run that was stopped")
        return given, None
    if not (resume / "plan.json").exists():
        raise BadInput(f"--resume {resume}: there is no run in it")
    if config is not None and (given["policy"] is not None or given["model"] is not None):
        return given, resume
    resume = whole(resume)  # before the directory is changed to the one in which the run was begun
    plan, home = check_trusted(resume, trust)
    config = None if config is None else str(whole(Path(config)))
    return given_before(resume, plan, {**given, "config": config}, home), resume


def _asked(given: dict[str, Any]) -> Asked:
    from paceline.cli._players import Endpoint, Player
    from paceline.cli._rolling import Asked

    endpoint = Endpoint(**{option.name: given[option.name] for option in fields(Endpoint)})
    player = Player(given["policy"], endpoint)
    return Asked(Path(given["config"]), given["mode"] or "train", given["seed"], given["max_turns"], player)


def _place(plan: str | None, jobs: int | None, untrusted: bool) -> Any:
    from paceline.engine import Plan
    from paceline.errors import BadInput

    plan = "auto" if plan is None else plan
    if untrusted and (jobs == 0 or plan in ("inline", "thread")):
        raise BadInput(
            "--untrusted needs workers in processes of their own: leave --jobs 0 and --plan inline or thread away"
        )
    trust = "data" if untrusted else "all"
    if jobs is None:
        return Plan(plan, trust=trust)
    if plan == "inline" and jobs > 1:
        raise BadInput(f"--jobs {jobs} wants workers, and --plan inline has none: leave one of them away")
    if not jobs and plan not in ("auto", "inline"):
        raise BadInput(f"--jobs 0 plays here, and --plan {plan} does not: leave one of them away")
    if not jobs:
        return "inline"
    return Plan(backend="process" if plan == "auto" else plan, workers=jobs, trust=trust)


def _records(plan: dict[str, Any], out: Path | None, resume: Path | None) -> Records:
    from paceline.errors import BadInput
    from paceline.groups.scores import summary
    from paceline.records import Records

    if out is not None and resume is not None:
        raise BadInput("--out and --resume exclude each other: --resume goes on in the directory that it names")
    path = resume or out or Path("runs") / f"rollout-{datetime.now():%Y%m%d-%H%M%S}"
    return Records(path, _LINES, plan, resume=resume is not None, keep=summary)


def _play(groups: Groups, player: Any, records: Records, asked: Asked, pace: Pace, as_json: bool, verify: bool) -> int:
    from paceline.cli import _rolling
    from paceline.cli._rolling import Session, run, shown
    from paceline.errors import NotKept
    from paceline.groups.driver import Spent

    start = perf_counter()
    session = Session(len(records.lines), Spent())
    broken: NotKept | None = None
    try:
        run(groups, player, records, asked, pace, session.spent)
        session.seconds = perf_counter() - start
        if verify:
            _rolling.verify(asked, records, _rolling.elsewhere(groups.plan), pace, session)
    except KeyboardInterrupt:
        session.interrupted = True
    except NotKept as error:
        broken = error
    session.seconds = session.seconds or perf_counter() - start
    report = asked.report(groups, records, session)
    OUTPUT.results = records.path
    try:
        records.finish(report)
    except NotKept as error:
        broken = broken or error
    print(json.dumps(report)) if as_json else shown(report)
    print(f"results: {records.path}", file=sys.stderr)
    if broken is not None:
        raise broken
    if session.interrupted:
        print(f"interrupted; go on with: paceline rollout --resume {records.path}", file=sys.stderr)
        return 130
    if not all(session.verified.values()):
        return 1
    return 3 if any(row["failures"] or row["cuts"] for row in report["tags"].values()) else 0
