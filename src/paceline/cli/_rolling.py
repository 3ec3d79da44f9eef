"""What `paceline rollout` does between its options and its output."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from paceline.cli._players import Player
    from paceline.engine import Plan
    from paceline.groups import Groups
    from paceline.groups.driver import Spent
    from paceline.records import Records

_WIDE = 200  # columns of a table at the most
_VERIFIERS = 2  # workers


@dataclass(frozen=True)
class Asked:
    """What a run follows from."""

    config: Path
    mode: str
    seed: int | None
    max_turns: int | None
    player: Player

    def groups(self, plan: str | Plan) -> Groups:
        """The environments, not yet reset."""
        from paceline.groups import Groups
        from paceline.groups.config import read_config

        config = read_config(self.config, self.mode)
        self.player.check_can_play(config)
        return Groups(config, plan=plan)

    def seeded(self, groups: Groups, resume: Path | None) -> Asked:
        """The same with a seed, however it was come by: a run that goes on must go on with its own."""
        from paceline.records import read_plan

        if self.seed is not None:
            return self
        known = None if resume is None else read_plan(resume).get("identity", {}).get("seed")
        return replace(self, seed=groups.next_seed() if known is None else known)

    def identity(self, groups: Groups) -> dict[str, Any]:
        """What must be the same for a run to be continued; where it runs, and when, is not part of it."""
        from paceline.groups.config import TIMEOUTS

        config = groups.config
        return {
            "groups": [list(share) for share in config.shares],
            "group_size": config.group_size,
            "format_penalty": config.format_penalty,
            **({"envs": config.manager.envs} if config.manager.envs != "paceline" else {}),
            "agent_proxy": config.talk.model_dump(mode="json"),
            **{
                f"custom_envs.{name}": tag.model_dump(mode="json", exclude=set(TIMEOUTS))
                for name, tag in config.tags.items()
            },
            "mode": self.mode,
            "seed": self.seed,
            "max_turns": self.max_turns,
            "policy": self.player.identity(),
        }

    def files(self, groups: Groups, policy: Any) -> dict[str, str]:
        """The user's files that a run follows from, each named by whose it is, with the SHA-256 of its content."""
        from paceline.sources import digests

        mine = ((path, f"policy {self.player.policy}") for path in self.player.files(policy))
        return digests([*mine, *_files_of_tags(groups)])

    def report(self, groups: Groups, records: Records, session: Session) -> dict[str, Any]:
        """Everything that is known in the end."""
        from paceline.groups.scores import finished, rollout_digest, scores, tokens

        plan, known = groups.plan, list(finished(records.lines).values())
        spent, unfinished = session.spent, session.unfinished(records)
        return {
            "identity": self.identity(groups),
            "trajectories": len(known),
            "of": len(groups),
            "group_size": groups.group_size,
            "tags": scores(known),
            "tokens": {
                **{name: count + unfinished.get(name, 0) for name, count in tokens(known).items()},
                "unfinished": unfinished["requests"],
            },
            "seconds": {
                "all": session.seconds,
                # Interrupted: nobody has added up what was under way.
                "policy": None if session.interrupted else spent.policy_seconds,
                "environments": None if session.interrupted else spent.env_seconds,
            },
            "plan": {"backend": plan.backend, "workers": plan.workers, "why": plan.why},
            "digest": rollout_digest(known),
            "interrupted": session.interrupted,
            **({"verified": dict(session.verified), "again": session.again} if session.verified else {}),
        }


def _files_of_tags(groups: Groups) -> Iterator[tuple[Path, str]]:
    from paceline.sources import data_in, files_of

    for name, tag in groups.config.tags.items():
        for path in (*files_of(groups.factories[name]), *data_in(tag.env_config or {})):
            yield path, name


@dataclass
class Session:
    """What one call of the command did.

    Attributes:
        before: How many lines there were on disk.
        spent: What it has asked for.
        seconds: How long it took.
        interrupted: Whether it was ended from outside.
        verified: Environment → whether its trajectory came out the same when it was played again.
        again: Where it was played again, in words.
    """

    before: int
    spent: Spent
    seconds: float = 0.0
    interrupted: bool = False
    verified: Mapping[int, bool] = field(default_factory=dict)
    again: str = ""

    def unfinished(self, records: Records) -> dict[str, int]:
        """What was asked for in trajectories that are not on disk: it was answered, and paid for."""
        from paceline.groups.scores import tokens

        kept = tokens(records.lines[self.before :])
        names = ("requests", "unanswered", "retries", "prompt_tokens", "completion_tokens", "cut_off")
        return {name: getattr(self.spent, name) - kept[name] for name in names}


@dataclass(frozen=True)
class Pace:
    """How fast it may go, and when it is cut."""

    concurrency: int
    deadline: float | None
    quorum: float | None


def run(groups: Groups, policy: Any, records: Records, asked: Asked, pace: Pace, spent: Spent) -> None:
    """Plays what is not on disk yet; every trajectory is on disk when it has ended."""
    from paceline.engine.interrupts import UNINTERRUPTED
    from paceline.groups.asking import run_to_its_end
    from paceline.groups.driver import arollout, prompters
    from paceline.groups.export import record
    from paceline.groups.scores import finished, summary, to_play_again

    done = {env_id for env_id, line in finished(records.lines).items() if not to_play_again(line)}
    groups.reset(asked.seed)
    writers = prompters(groups)

    with Progress(groups, done) as progress:

        def keep(trajectory: Any, replies: Any) -> None:
            line = record(trajectory, replies, writers[trajectory.cache["tag"]])
            with UNINTERRUPTED:  # what is on disk is in the report, too
                records.add(line)
                records.lines.append(summary(line))
            progress.tell(line)

        async def play() -> None:
            try:
                await arollout(
                    groups,
                    policy,
                    max_turns=asked.max_turns,
                    concurrency=pace.concurrency,
                    only=set(range(len(groups))) - done,
                    deadline=pace.deadline,
                    quorum=pace.quorum,
                    on_end=keep,
                    usage=spent,
                )
            finally:
                await _close(policy)

        run_to_its_end(play())


def elsewhere(plan: Plan) -> Plan:
    """Where trajectories are played again: on workers if they were played here, here if not. What may not be loaded in
    this process stays in workers, another number of them."""
    from paceline.engine import Plan

    if plan.trust == "data":
        return Plan("process", (plan.workers or 1) + 1, trust="data")
    return Plan("process", _VERIFIERS) if plan.backend == "inline" else Plan("inline")


def verify(asked: Asked, records: Records, plan: Plan, pace: Pace, session: Session) -> None:
    """Plays what came to an end of its own again, at a place that `elsewhere` gives, and compares."""
    from paceline.groups.asking import run_to_its_end
    from paceline.groups.driver import Spent, arollout, prompters
    from paceline.groups.export import record
    from paceline.groups.scores import finished, to_play_again

    first = {env_id: line["digest"] for env_id, line in finished(records.lines).items() if not to_play_again(line)}
    if not first:
        return
    again: dict[int, str] = {}
    with asked.groups(plan) as groups:
        policy = asked.player.find(groups, pace.concurrency)
        groups.reset(asked.seed)
        writers = prompters(groups)

        def keep(trajectory: Any, replies: Any) -> None:
            line = record(trajectory, replies, writers[trajectory.cache["tag"]])
            again[int(line["env_id"])] = line["digest"]

        async def play() -> None:
            try:
                await arollout(
                    groups,
                    policy,
                    max_turns=asked.max_turns,
                    concurrency=pace.concurrency,
                    only=set(first),
                    on_end=keep,
                    usage=Spent(),
                )
            finally:
                await _close(policy)

        run_to_its_end(play())
    session.again = "here" if plan.backend == "inline" else f"on {plan.workers} workers"
    session.verified = {env_id: again.get(env_id) == digest for env_id, digest in sorted(first.items())}


async def _close(policy: Any) -> None:
    close = getattr(policy, "close", None)
    if callable(close):
        ended = close()
        if inspect.isawaitable(ended):
            await ended


class Progress:
    """A bar per tag on stderr; silent where stderr is no terminal."""

    def __init__(self, groups: Groups, done: set[int]) -> None:
        self._tags = [trajectory.cache["tag"] for trajectory in groups.trajectories]
        self._done = done
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._won: dict[str, int] = {}

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, line: Mapping[str, Any]) -> None:
        """A trajectory has ended."""
        if self._bars is None:
            return
        tag = line["tag"]
        self._won[tag] = self._won.get(tag, 0) + bool(line["success"])
        self._bars.update(self._tasks[tag], advance=1, won=f"{self._won[tag]} succeeded")

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[green]{task.fields[won]}"),
            console=Console(stderr=True),
        )
        for tag in dict.fromkeys(self._tags):
            before = sum(self._tags[env_id] == tag for env_id in self._done)
            self._tasks[tag] = self._bars.add_task(tag, total=self._tags.count(tag), completed=before, won="")
        self._bars.start()


def shown(report: Mapping[str, Any]) -> None:
    """Prints the table, and what stands below it."""
    from rich.console import Console

    # What is wider than the terminal is wrapped there: half a word, or half a number, is no use to anybody.
    Console(width=_WIDE, markup=False, emoji=False).print(_table(report), crop=False)
    seconds = report["seconds"]
    print(f"\n{_played(report)} in {seconds['all']:.1f} s; {_asked(report['tokens'])}")
    if seconds["policy"] is not None:
        both = f"{seconds['policy']:.1f} s with the policy (many at once), {seconds['environments']:.1f} s with envs"
        print(f"time: {both}")
    print(f"plan: {report['plan']['backend']}: {report['plan']['why']}")
    print(f"digest: {report['digest']}")
    if found := report.get("verified"):
        wrong = [f"trajectory {env_id}" for env_id, same in found.items() if not same]
        same = f"verified: {len(found)} trajectories played again {report['again']} came out the same"
        print(f"played again {report['again']}, these came out differently: {', '.join(wrong)}" if wrong else same)


def _table(report: Mapping[str, Any]) -> Table:
    from paceline.cli._tables import table

    mishaps = {"failed": "failures", "cut": "cuts"}
    shown = [name for name, key in mishaps.items() if any(row[key] for row in report["tags"].values())]
    passed = f"pass@{report['group_size']}"
    made = table("tag", "traj", "success", passed, "return", "penalty", "actions", "turns", *shown)
    for tag, row in report["tags"].items():
        made.add_row(
            tag,
            str(row["trajectories"]),
            f"{row['success']:.1%}",
            f"{row['pass']:.1%}",
            f"{row['return']:.3g}",
            f"{row['penalty']:.3g}",
            f"{row['actions']:.1f}",
            f"{row['turns']:.1f}",
            *(str(row[mishaps[name]]) for name in shown),
        )
    return made


def _played(report: Mapping[str, Any]) -> str:
    """How many came to an end of their own, and what became of the others."""
    failed, cut = (sum(int(row[name]) for row in report["tags"].values()) for name in ("failures", "cuts"))
    others = "".join(f", {count} {what}" for count, what in ((failed, "failed"), (cut, "cut by the clock")) if count)
    played = f"{report['trajectories'] - failed - cut} of {report['of']} trajectories played{others}"
    return f"interrupted: {played}" if report["interrupted"] else played


def _asked(used: Mapping[str, int]) -> str:
    vain = f", {used['unanswered']} questions without an answer" if used["unanswered"] else ""
    unfinished = f"{used['unfinished']} in unfinished trajectories, " if used["unfinished"] else ""
    return (
        f"{used['requests']} answers ({unfinished}{used['retries']} asked again, {used['cut_off']} cut off, "
        f"{used['invalid']} without a valid action){vain}, "
        f"{used['prompt_tokens']} + {used['completion_tokens']} tokens"
    )
