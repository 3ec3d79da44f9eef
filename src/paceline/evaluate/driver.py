"""The evaluation from end to end: what is asked, what is played, what is kept.

Run ── survey ──► jobs that are not on disk ── schedule, or cohorts ──► Store ──► failed ones again ──► Report
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from paceline.catalog.resolve import Missions, Policies, casts_of, missions_of
from paceline.engine import Plan, Pool, Trace, check_sendable, find_backend, temporary_directory
from paceline.errors import BadInput, NotKept, NotSendable
from paceline.evaluate.cohorts import play_in_cohorts
from paceline.evaluate.given import affordable, chosen_device
from paceline.evaluate.playing import Played, Surveyed, apart, survey
from paceline.evaluate.report import Report, in_plan_order
from paceline.evaluate.reruns import play_here, unlike
from paceline.evaluate.run import Job, Run
from paceline.evaluate.sources import digests
from paceline.evaluate.spread import by_episode, schedule_of
from paceline.evaluate.stopping import Stop
from paceline.evaluate.store import Store
from paceline.lasting import LASTING
from paceline.run import Count, Device, Directory, Seconds, Whole, checks_options
from paceline.schedule import Note
from paceline.seeds import sequence
from paceline.team import Setting, cannot_be_copied, first_episodes
from paceline.team.modes import check_deadline
from paceline.team.modes import find as find_mode
from paceline.types import Episode, Seat

LEVELS = ("missions", "episodes", "agents")
"""What may run side by side."""

_RETRIES = 2

Watcher = Callable[[Episode, int, int], None]
"""Told of every episode that has ended: the record, how many are done, how many there are."""


@dataclass(frozen=True)
class Care:
    """What is done about failures, and how long things may take.

    Attributes:
        on_error: "continue" with the others, "stop", or "retry" a failed episode twice more.
        max_failures: Stop with so many failed episodes, counted in the order of the plan.
        episode_deadline: Seconds after which an episode's worker is killed.
        restarts: How often an episode that kills its worker is tried.
    """

    on_error: str = "continue"
    max_failures: int | None = None
    episode_deadline: float | None = None
    restarts: int = 3

    @property
    def last_failure(self) -> int | None:
        """With so many failures a run ends; None: with its last episode."""
        return 1 if self.on_error == "stop" else self.max_failures


@checks_options
def evaluate(
    missions: Missions,
    policies: Policies = (),
    *,
    episodes: Count = 1,
    seed: Whole = 0,
    lanes: Count = 8,
    device: Device = "cpu",
    plan: str | int | Plan = "auto",
    agents: str | None = None,
    on_error: Literal["continue", "stop", "retry"] = "continue",
    max_failures: Count | None = None,
    episode_deadline: Seconds | None = None,
    call_deadline: Seconds | None = None,
    action_limit: Seconds | None = None,
    timeout_action: Literal["late", "noop"] = "late",
    levels: Iterable[str] = LEVELS,
    replays: Directory | None = None,
    out: Directory | None = None,
    resume: bool = False,
    verify: Whole = 0,
    trace: Trace | None = None,
    watcher: Watcher | None = None,
    about: dict[str, Any] | None = None,
) -> Report:
    """Plays every mission `episodes` times and scores the policies. Warns if an episode failed: see `Report.ok`.

    Each episode is on disk in `out` when it has ended; to resume is to play what is missing, and what has failed.

    Args:
        missions: Names as `paceline eval -m` takes them, what makes environments (a class, a function), or `Mission`s.
        policies: Names as `-p` takes them, policies (objects with `act`, callables `obs -> action`), what makes them (a
            class, a function), torch modules, models of Stable-Baselines3, or `Player`s; several share the seats by
            their shares.
        episodes: Of each mission; episode `i` has the environment seed `seed + i`.
        seed: Root of everything random.
        lanes: Rows of a batch in which networks answer. Part of the result: another number gives other bits.
        device: Where networks are put: "auto", "cpu", "cuda" or "mps". Part of the result.
        plan: Where it runs: "auto", a backend, a number of workers (0: here), or a `Plan`. It changes no bit of the
            result.
        agents: Where the policies of an episode run: "auto", "off", "thread", "process", "batch", "gpu".
        on_error: What a failed episode means: "continue", "stop", or "retry".
        max_failures: Stop with so many. What is kept is what one process would have played: the episodes up to the last
            of these failures, in the order of the plan; each is on disk when those before it are, or when the run is
            interrupted.
        episode_deadline: Seconds for one episode, after which its worker is killed.
        call_deadline: Seconds for one action, after which the policy's process is killed.
        action_limit: Seconds after which an action is recorded as late.
        timeout_action: What is done about a late action: "late" takes it all the same; "noop" takes the one that does
            nothing in its place, where the mission has one. Then the result follows the clock.
        levels: What may run side by side: "missions", "episodes", "agents". What is left out runs one after another.
        replays: A directory for a replay of each episode, on missions that keep replays (mettagrid's).
        out: A directory for the results.
        resume: Whether to go on with what `out` holds.
        verify: So many episodes are played again here afterwards, and their digests compared.
        trace: Records where the time goes.
        watcher: Told of every episode that has ended.
        about: Kept in plan.json beside what is asked.

    Raises:
        BadInput: a mission, a policy or an option makes no sense; nothing has been played.
    """
    if resume and out is None:
        raise BadInput("resume=True: say with out= what directory to go on with")
    where = Plan.parse(plan).not_of_a_vector()
    mode = agents or where.agents or "auto"
    setting = Setting(seed, lanes, mode, None, call_deadline, action_limit, timeout_action)
    played = missions_of(missions, apart=where.trust == "data")
    players, casts = casts_of(played, policies, action_limit, apart=where.trust == "data")
    kept = None if replays is None else str(Path(replays).resolve())
    run = Run(played, players, episodes, seed, chosen_device(device), setting, casts, kept)
    care = Care(on_error, max_failures, episode_deadline)
    report = Evaluation(run, where, care, trace, watcher, levels).go(
        None if out is None else Path(out), resume, verify, about
    )
    if report.failures:
        warnings.warn(f"{report.told_failures()}. See .failures, or call .raise_for_failures()", stacklevel=2)
    return report


class Evaluation:
    """One evaluation under way."""

    def __init__(
        self,
        run: Run,
        plan: Plan,
        care: Care,
        trace: Trace | None = None,
        watcher: Watcher | None = None,
        levels: Iterable[str] = LEVELS,
    ) -> None:
        self._levels = checked_levels(levels)
        if run.replays is not None:
            _make_directory(Path(run.replays))
        if "agents" not in self._levels:
            run = run.one_agent_at_a_time()
        self.run, self.plan, self.care = run, affordable(plan, run.planned), care
        self._trace, self._watcher = trace, watcher
        self._notes = {mission.name: mission.caution for mission in run.missions if mission.caution}
        if "agents" not in self._levels and run.setting.call_deadline is not None:
            raise BadInput("a call deadline needs agents in processes of their own: leave 'agents' in the levels")
        for name in {player.agents or run.setting.agents for player in run.players}:
            check_deadline(name, run.setting.call_deadline)
            if find_mode(name).cohorts and "episodes" not in self._levels:
                raise BadInput(f"agents={name!r} steps episodes together: leave 'episodes' in the levels")
            if find_mode(name).cohorts and care.episode_deadline is not None:
                raise BadInput("episodes that are stepped together cannot have deadlines of their own")
            if find_mode(name).cohorts and plan.trust == "data":
                raise BadInput(f"agents={name!r} keeps policies in this process: that does not go with trust='data'")
        if plan.backend != "auto":
            find_backend(plan.backend)
        if plan.backend in ("inline", "thread") and care.episode_deadline is not None:
            raise BadInput(
                f"a deadline for episodes cannot be kept where plan={plan.backend!r}: only a worker in a process of "
                "its own can be ended; use workers (-j 1 or more), or plan='process'"
            )
        goes = plan.workers is not None or plan.isolate or care.episode_deadline is not None or plan.trust == "data"
        if plan.backend not in ("inline", "thread") and (plan.backend != "auto" or goes):
            _check_sendable(run)
        self._here = apart(self.plan, run.seed)  # what lives here between episodes, from the survey on
        found = self._surveyed(goes)
        self.seats: list[list[Seat]] = [seats for seats, _ in found]
        self.run = self.run.with_found([each for _, each in found])
        self._mention_the_seatless()
        self._mention_the_uncopied()

    def _surveyed(self, goes: bool) -> list[Surveyed]:
        """Looks at missions and policies where they will be played: in a process, if the plan promises processes."""
        plan = self.plan
        everyone = {player.name: player for cast in self.run.casts or (self.run.players,) for player in cast}.values()
        away = plan.backend in ("auto", "process") and (goes or plan.backend == "process") and plan.trust == "all"
        deadline = math.inf if self.care.episode_deadline is None else self.care.episode_deadline
        with temporary_directory() as boxes:
            run = self.run.with_blackbox(boxes)
            if not away or any(cannot_be_copied(player) is not None for player in everyone):
                return survey(run, self._here, spaces=plan.trust == "all")
            with Pool([], seed=run.seed, backend="process", workers=1) as pool:
                return survey(run, pool, deadline=deadline)

    def _mention_the_seatless(self) -> None:
        """Where there are more policies than seats, whoever compares them should know who plays when."""
        for number, (mission, seats) in enumerate(zip(self.run.missions, self.seats, strict=True)):
            if not isinstance(mission.seating, str):
                continue  # it was written out, so it is known
            cast = self.run.cast(number)
            first = first_episodes(cast, len(seats))
            shared = [(p.name, at) for p, at in zip(cast, first, strict=True) if p.share > 0]
            without = [name for name, at in shared if at is None or at >= self.run.episodes]
            if not without and not any(at for _, at in shared):
                continue
            many = f"{len(seats)} seat{'s' if len(seats) > 1 else ''} for {len(shared)} policies"
            what = f"{', '.join(without)} never play{'s' if len(without) == 1 else ''} there"
            self._notes[f"seatless {mission.name}"] = (
                f"{mission.name} has {many}: {what if without else 'they take turns, episode by episode'}. To compare "
                "policies on the same seeds, evaluate each by itself, and use `paceline compare`"
            )

    def _mention_the_uncopied(self) -> None:
        for player in {player.name: player for cast in self.run.casts for player in cast}.values():
            why = cannot_be_copied(player)
            if why is not None:
                self._notes[f"uncopied {player.name}"] = (
                    f"policy {player.name!r} cannot be copied ({why}): it is played here, and what it remembers goes "
                    "from one episode to the next; to have it otherwise, give the class that makes it"
                )

    def go(
        self, out: Path | None = None, resume: bool = False, verify: int = 0, about: dict[str, Any] | None = None
    ) -> Report:
        """Plays what is not on disk yet, and reports.

        Raises:
            NotKept: results cannot be written any more; it has the report so far.
        """
        begin = perf_counter()
        LASTING.begin_anew()
        store = self._store(out, resume, about or {}) if out is not None else None
        # What failed is played again, as in every job that goes on with a run.
        done = {key: each for key, each in store.done.items() if each.failure is None} if store is not None else {}
        try:
            with temporary_directory() as boxes:
                self.run = self.run.with_blackbox(boxes)
                try:
                    self._play(done, store)
                except NotKept as error:
                    error.results = self.report(done, perf_counter() - begin, out)
                    raise
            self._mention_noops(done.values())
            report = self.report(done, perf_counter() - begin, out)
            report.verified = self._verify(report.episodes, verify)
            if store is not None:
                self._finish(store, report)
            return report
        finally:
            self._here.close()
            if store is not None:
                store.close()

    @staticmethod
    def _finish(store: Store, report: Report) -> None:
        try:
            store.finish(report)
        except NotKept as error:
            error.results = report
            raise

    def _store(self, out: Path, resume: bool, about: dict[str, Any]) -> Store:
        made_of = {"identity": self.run.identity(), "files": digests(self.run), "recipes": self.run.recipes()}
        deadlines = {"episode": self.care.episode_deadline, "call": self.run.setting.call_deadline}
        store = Store(out, {**about, "deadlines": deadlines, **made_of}, resume=resume)
        self._note((note, note) for note in store.notes)
        for episode in in_plan_order(store.done, self.run.identity()):
            job = self.run.job(episode.mission, episode.index)
            if episode.seats and episode.seats != self.run.names(job, self.seats[job.mission]):
                store.close()
                raise BadInput(
                    f"{episode.name} in {out} was played in other seats than would be planned now, by another release: "
                    "begin afresh with another directory (a new --out)"
                )
        return store

    @property
    def notes(self) -> list[str]:
        """What is worth knowing so far."""
        return list(self._notes.values())

    def report(self, done: dict[tuple[str, int], Episode], seconds: float, out: Path | None) -> Report:
        """What is known so far."""
        identity = self.run.identity()
        where = {"backend": self.plan.backend, "workers": self.plan.workers, "why": self.plan.why}
        return Report(
            identity,
            in_plan_order(done, identity),
            self.run.planned,
            {**where, "agents": self.run.setting.agents},
            self.notes,
            seconds,
            out=None if out is None else str(out),
            made_of=self.run.missions_made_of(),
        )

    def _play(self, done: dict[tuple[str, int], Episode], store: Store | None) -> None:
        def missing(order: bool = False) -> Iterator[Job]:
            return (job for job in self.run.jobs(by_episode=order) if self.run.key(job) not in done)

        by_index = by_episode(self._levels)
        failed = self._pass(missing(by_index), missing(), self.run.planned - len(done), done, store)
        for tries in range(2, 2 + _RETRIES) if self.care.on_error == "retry" else ():
            if not failed or len(failed) == self.care.last_failure:
                return
            jobs = sorted((replace(job, tries=tries) for job in failed), key=lambda job: job.place)
            begun = sorted(jobs, key=lambda job: job.place[::-1]) if by_index else jobs
            failed = self._pass(begun, jobs, len(jobs), done, store)

    def _pass(
        self,
        begun: Iterable[Job],
        planned: Iterable[Job],
        most: int,
        done: dict[tuple[str, int], Episode],
        store: Store | None,
    ) -> list[Job]:
        """Plays jobs, given in the order in which they are begun and in that of the plan. Returns those that failed."""
        if self.care.last_failure is None:
            return self._keep(self._played(begun, most), done, store)
        stop = Stop(self.care.last_failure)
        try:
            failed = self._keep(stop.kept(planned, self._played(stop.needed(begun), most)), done, store)
        except NotKept:
            raise
        except BaseException:  # an interrupt: a run that goes on from the disk need not play them again
            if store is not None:
                for episode in stop.early:
                    store.add(episode)
            raise
        for key in [key for key in done if not stop.is_needed(self.run.job(*key))]:
            del done[key]  # an interrupted run has played it ahead
        return failed

    def _keep(
        self, played: Iterable[tuple[Job, Played]], done: dict[tuple[str, int], Episode], store: Store | None
    ) -> list[Job]:
        """Keeps each episode when it is given. Returns the jobs that failed."""
        failed = list[Job]()
        for job, (episode, notes) in played:
            done[self.run.key(job)] = episode
            self._note(notes)
            if store is not None:
                store.add(episode)
            if self._watcher is not None:
                self._watcher(episode, len(done), self.run.planned)
            if episode.failure is not None:
                failed.append(job)
        return failed

    def _mention_noops(self, episodes: Iterable[Episode]) -> None:
        late = sum(sum(episode.late.values()) for episode in episodes)
        if late and self.run.setting.timeout_action == "noop":
            self._notes["noops"] = (
                f"{late} action{'s' if late > 1 else ''} came late and became noop: this result follows the clock, and "
                "another run may differ"
            )

    def _note(self, notes: Iterable[Note]) -> None:
        for topic, text in notes:
            self._notes.setdefault(topic, text)

    def _played(self, jobs: Iterable[Job], most: int) -> Iterator[tuple[Job, Played]]:
        modes = [player.agents or self.run.setting.agents for player in self.run.players]
        if any(find_mode(mode).cohorts for mode in modes):
            yield from play_in_cohorts(self.run, self.plan, jobs, self.seats, self._trace, self._here)
            return
        schedule = schedule_of(
            self.run,
            self.plan,
            self.seats,
            deadline=self.care.episode_deadline,
            restarts=self.care.restarts,
            trace=self._trace,
            levels=self._levels,
            here=self._here,
        )
        try:
            with schedule:
                yield from schedule.run(jobs, most)
        finally:
            self.plan = schedule.plan
            self._note(schedule.notes)

    def _verify(self, episodes: list[Episode], wanted: int) -> dict[str, bool]:
        """Plays some episodes again, here, one after another: drawn by the seed, so that they are the same each time.

        Where only data is trusted they are played in a worker.
        """
        # Not those that failed: what has killed a worker, or hung, would do so here.
        episodes = [episode for episode in episodes if episode.failure is None]
        rng = np.random.default_rng(sequence(self.run.seed, "verify"))
        chosen = sorted(rng.permutation(len(episodes))[:wanted].tolist())
        found = {}
        for number in chosen:
            episode = episodes[number]
            again = play_here(self.run, self.run.job(episode.mission, episode.index), self.plan)
            found[episode.name] = not unlike(episode, again)
        return found


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"replays cannot be kept in {path}: {error.strerror}; give another directory") from error


def checked_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """The levels that are asked for.

    Raises:
        BadInput: one of them is none.
    """
    found = tuple(levels)
    if strange := [level for level in found if level not in LEVELS]:
        raise BadInput(f"there is no level {strange[0]!r}; give some of {', '.join(LEVELS)}")
    return found


def _check_sendable(run: Run) -> None:
    """Better told now than when workers have been started and a directory has been made."""
    try:
        check_sendable(run)
    except NotSendable as error:
        raise BadInput(f"{error}; to play it here: --jobs 0, plan=0") from error.__cause__
