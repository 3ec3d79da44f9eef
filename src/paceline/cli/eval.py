"""`paceline eval`: scores policies on missions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperCommand

from paceline.cli._ending import sigterm_as_ctrl_c
from paceline.cli._output import OUTPUT

if TYPE_CHECKING:
    from paceline.cli._asking import Asked
    from paceline.evaluate import Report
    from paceline.evaluate.driver import Care, Evaluation

_HELP = """Score policies on missions: every episode in parallel, and the result of one after another.

\b
Examples:
  paceline eval
  paceline eval -m forage -p greedy -p random -e 50
  paceline eval -m 'forage*' -m courier -p memory:3 -p random:1 --cogs 4 --episodes 10 --jobs 4
  paceline eval -m gym:CartPole-v1 -p my_policy.py:Agent,weights=net.pt,kw.hidden=64 --json
  paceline eval -m pz:mpe2.simple_spread_v3 -p sb3:PPO,weights=model.zip,trust=true
  paceline eval -m forage-64 -p my_llm.py:Agent --parallel-policy=thread
  paceline eval -m mettagrid:market -p random -p class=my_pkg.Policy,proportion=3 --cogs 8 --jobs 4
  paceline eval -m my_mission.py -p class=my_pkg.Policy,data=net.pt --pool random --save-replay-dir replays
  paceline eval --resume runs/eval-20260101-120000

\b
A mission:  NAME[,key=value …]   a name of `paceline missions` (wildcards too), gym:ID, pz:module,
                                 mettagrid:NAME, a mission file of mettagrid (.py, .yaml, .json),
                                 file.py:factory, package.module:factory
A policy:   NAME[:SHARE][,weights=FILE][,proportion=SHARE][,kw.key=value …][,agents=MODE][,name=NAME][,trust=true]
                                 a name of `paceline policies`, file.py:Class, package.module:Class,
                                 sb3:ALGORITHM, torch:file.py:Module; on missions of mettagrid its
                                 short names, bundles, and class=package.module.Class[,data=FILE]

\b
Exit codes:
  0  everything was played
  1  --verify found an episode that came out differently
  2  something was asked that makes no sense, or --dry-run found what fails, and nothing has been played; or
     results could not be written: those there are are printed
  3  some episodes failed; the others are kept
  130  interrupted, by Ctrl-C or SIGTERM; what is done is kept, and --resume goes on
"""

_FLAG, _OLD_FLAG = "--parallel-policy", "--parallel-agents"


class _Eval(TyperCommand):
    """`--parallel-policy` may stand alone, which means auto."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from paceline.errors import BadInput

        if any(word == _OLD_FLAG or word.startswith(f"{_OLD_FLAG}=") for word in args):
            raise BadInput(f"{_OLD_FLAG} is called {_FLAG} now: write {_FLAG}, or {_FLAG}=thread and the like")
        return super().parse_args(ctx, [f"{_FLAG}=auto" if word == _FLAG else word for word in args])


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("eval", help=_HELP, cls=_Eval)(evaluate)


@sigterm_as_ctrl_c()
def evaluate(
    mission: Annotated[list[str] | None, typer.Option("-m", "--mission", help="What to play; may be repeated.")] = None,
    policy: Annotated[list[str] | None, typer.Option("-p", "--policy", help="Who plays; may be repeated.")] = None,
    agents: Annotated[
        int | None, typer.Option("--agents", "--cogs", "-c", metavar="N", help="How many agents a mission has.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("-s", "--steps", metavar="N", help="The most steps of an episode.")
    ] = None,
    map_seed: Annotated[
        int | None, typer.Option(metavar="N", help="One map for all episodes of mettagrid's missions.")
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option("-v", "--variant", help="A variant of mettagrid's missions; may be repeated.")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option("-e", "--episodes", metavar="N", help="Episodes of each mission.  [default: 10]")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Root of everything random.  [default: 0]")] = None,
    jobs: Annotated[
        str, typer.Option("-j", "--jobs", metavar="N|auto", help="Workers for missions and episodes; 0: here.")
    ] = "auto",
    plan: Annotated[str, typer.Option(help="Where workers run: auto, process, thread, ray, inline.")] = "auto",
    parallel_policy: Annotated[
        str,
        typer.Option(
            _FLAG, metavar="[=MODE]", help="Where agents run: auto, off, thread, process, batch, gpu. Alone: auto."
        ),
    ] = "auto",
    lanes: Annotated[
        int | None, typer.Option(metavar="N", help="Rows of a batch; part of the result.  [default: 8]")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For networks: auto, cpu, cuda, mps; part of the result.  [default: cpu]")
    ] = None,
    on_error: Annotated[str, typer.Option(help="What a failed episode means: continue, stop, retry.")] = "continue",
    max_failures: Annotated[int | None, typer.Option(metavar="N", help="Stop after so many failed episodes.")] = None,
    episode_deadline: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for an episode; then its worker is killed.")
    ] = None,
    call_deadline: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds for an action; then its policy's process is killed.")
    ] = None,
    action_timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds after which an action is late.  [default: no limit]")
    ] = None,
    action_timeout_ms: Annotated[
        float | None, typer.Option(metavar="MS", help="The same in milliseconds, as cogames has it.")
    ] = None,
    timeout_action: Annotated[
        str | None,
        typer.Option(metavar="late|noop", help="A late action is counted and taken, or becomes noop.  [default: late]"),
    ] = None,
    levels: Annotated[
        str, typer.Option(metavar="LIST", help="What may run side by side; the rest goes one after another.")
    ] = "missions,episodes,agents",
    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", metavar="POLICY", help="Value over replacement: -p in every mix with these policies."),
    ] = None,
    save_replay_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A replay of each episode, in mettagrid's format.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where results go.  [default: runs/eval-DATE-TIME]")
    ] = None,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Whether results are kept.")] = True,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with a run that was interrupted.")] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="With --resume: run the code that the run names, wherever it is from."),
    ] = False,
    verify: Annotated[int, typer.Option(metavar="K", min=0, help="Play K episodes again here, and compare.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be played, and for how long.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="json|yaml", help="Print the summary that `cogames run --format` prints."),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print what missions and agents counted, too.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print a line per episode and agent, and nothing else.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the first episode in the terminal; nothing else.")
    ] = False,
    gif: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the first episode; nothing else.")] = None,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write where the time went, for Perfetto.")] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Take data only from workers: nothing they send can run code here.")
    ] = False,
) -> int:
    """Plays, and prints what came out."""
    from paceline.cli._asking import Asked, asked_before
    from paceline.cli._running import fresh_directory, only_the_result, plan_of, whole
    from paceline.cli._trust import check_trusted
    from paceline.errors import BadInput
    from paceline.evaluate import evaluate as job
    from paceline.evaluate.driver import Care
    from paceline.run import options_of

    given: dict[str, Any] = {
        "missions": mission or [],
        "policies": policy or [],
        "seats": agents,
        "steps": steps,
        "episodes": episodes,
        "seed": seed,
        "lanes": lanes,
        "device": device,
        "map_seed": map_seed,
        "variants": variant or [],
        "pool": pool or [],
        "action_timeout": action_timeout if action_timeout_ms is None else action_timeout_ms / 1000,
        "timeout_action": timeout_action,
        "replays": None if save_replay_dir is None else str(save_replay_dir.resolve()),
    }
    _check_together(
        {"--json": as_json, "--csv": as_csv, "--dry-run": dry_run, "--watch": watch, "--gif": gif is not None}
        | {"--format": form is not None}
        | {"--action-timeout": action_timeout is not None, "--action-timeout-ms": action_timeout_ms is not None}
        | {"--untrusted": untrusted}
        | {"--resume": resume is not None, "--out": out is not None, "--no-save": not save}
    )
    if gif is not None and gif.suffix.lower() != ".gif":
        raise BadInput(f"--gif {gif}: give a file whose name ends in .gif")
    form = _form(as_json, as_csv, form, stats)
    with only_the_result(form not in ("table", "stats")) as page:
        if resume is not None:
            # Before the directory is changed to the one in which the run was begun.
            resume, trace = whole(resume), trace and whole(trace)
            begun, home = check_trusted(resume, trust)
            asked = asked_before(resume, begun, given, home)
        else:
            asked = Asked.of(given).settled()
        run = asked.run(asked.setting(parallel_policy, call_deadline), apart=untrusted)
        cared = {"on_error": on_error, "max_failures": max_failures, "episode_deadline": episode_deadline}
        care = Care(**options_of(job).check(cared))
        if watch or gif is not None:
            from paceline.cli._showing import draw, show

            return show(run) if gif is None else draw(run, gif)
        wanted = [level.strip() for level in levels.split(",") if level.strip()]
        evaluation = _Evaluation(run, plan_of(plan, jobs, untrusted), care, asked, trace, wanted)
        if dry_run:
            from paceline.cli._forecast import forecast

            return forecast(evaluation.under_way, page if as_json else None)
        OUTPUT.results = where = resume or (None if not save else whole(out or fresh_directory("eval")))
        return evaluation.go(where, resume is not None, verify, form, page)


_APART = (
    ("--json", "--csv", "both want all of the output"),
    ("--json", "--format", "both want all of the output"),
    ("--csv", "--format", "both want all of the output"),
    ("--dry-run", "--format", "do not go together: there is nothing to sum up; --json prints the plan"),
    ("--action-timeout", "--action-timeout-ms", "say the same in two units"),
    ("--resume", "--out", "both say where the results go"),
    ("--resume", "--no-save", "contradict each other: the results are on disk already"),
    ("--no-save", "--out", "contradict each other: results are kept, or they are not"),
    ("--dry-run", "--csv", "do not go together: there are no episodes to list; --json prints the plan"),
    *(
        (shown, other, f"do not go together: {shown} shows one episode, and nothing else")
        for shown in ("--watch", "--gif")
        for other in ("--json", "--csv", "--format", "--dry-run", "--resume", "--out")
    ),
    *(
        (shown, "--untrusted", f"do not go together: {shown} plays in this process")
        for shown in ("--watch", "--gif", "--dry-run")
    ),
    ("--watch", "--gif", "do not go together: one shows in the terminal, the other in a file"),
)


def _check_together(given: dict[str, bool]) -> None:
    """Says which of the options exclude each other."""
    from paceline.errors import BadInput

    for one, other, why in _APART:
        if given[one] and given[other]:
            raise BadInput(f"{one} and {other} {why}: give one of them")


class _Evaluation:
    """An evaluation with somebody who watches it."""

    def __init__(
        self, run: Any, plan: Any, care: Care, asked: Asked, trace: Path | None, levels: Sequence[str]
    ) -> None:
        from paceline.cli._progress import Progress
        from paceline.cli._tracing import TraceFile
        from paceline.evaluate.driver import Evaluation

        self._asked, self._file = asked, TraceFile(trace)
        self._progress = Progress(run)
        self.under_way: Evaluation = Evaluation(run, plan, care, self._file.trace, self._progress.tell, levels)

    def go(self, out: Path | None, resume: bool, verify: int, form: str, page: TextIO) -> int:
        from paceline.errors import NotKept

        try:
            with self._progress:
                report = self.under_way.go(out, resume, verify, self._asked.about())
        except KeyboardInterrupt:
            _say_goodbye(out)
            self._file.write()
            return 130
        except NotKept as error:
            if error.results is not None:
                _print(error.results, form, page)
            self._file.write()
            raise
        except BaseException:
            self._file.write()
            raise
        _print(report, form, page)
        self._file.write()
        return _code(report)


def _form(as_json: bool, as_csv: bool, summary: str | None, stats: bool) -> str:
    """How the result is printed."""
    from paceline.errors import BadInput

    if summary is None:
        return "json" if as_json else "csv" if as_csv else "stats" if stats else "table"
    if summary not in ("json", "yaml"):
        raise BadInput(f"--format {summary}: give json, or yaml")
    if summary == "yaml" and find_spec("yaml") is None:
        raise BadInput("--format yaml needs PyYAML: pip install 'paceline[mettagrid]', or use --format json")
    return f"summary {summary}"


def _print(report: Report, form: str, page: TextIO) -> None:
    from paceline.cli._tables import show_report

    if form == "json":
        print(json.dumps(_whole(report)), file=page)
    elif form.startswith("summary"):
        print(_summary(report, form), file=page)
    elif form == "csv":
        print(report.as_csv(), end="", file=page)
    else:
        show_report(report, stats=form == "stats")


def _whole(report: Report) -> dict[str, Any]:
    """The report, and what a candidate is worth if there was a pool."""
    from paceline.evaluate.replacement import replacements

    found = [asdict(each) for each in replacements(report)]
    return {**report.as_dict(), **({"replacement": found} if found else {})}


def _summary(report: Report, form: str) -> str:
    from paceline.adapters.mettagrid.summary import summary

    content = summary(report)
    if form == "summary json":
        return json.dumps(content, indent=2)
    import yaml

    text: str = yaml.safe_dump(content, sort_keys=False)
    return text.rstrip()


def _say_goodbye(out: Path | None) -> None:
    kept = f"what is done is kept: paceline eval --resume {out}" if out is not None else "nothing was kept (--no-save)"
    begun = out is None or (out / "plan.json").exists()
    print(f"interrupted; {kept}" if begun else "interrupted before anything was played", file=sys.stderr)


def _code(report: Report) -> int:
    if not all(report.verified.values()):
        return 1
    return 3 if report.failures else 0
