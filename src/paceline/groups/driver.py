"""Plays trajectories to their ends: asks the policy and steps the environments at the same time, each at its own pace.

    trajectory ──► question ──► policy (so many at once) ──► answer ──► submit ──► ready ──► next turn
    trajectory ──► …            no trajectory waits for another's turn: there is no barrier

What a trajectory becomes depends on its environment and its answers alone, so the order of arrival changes nothing.
Only a deadline or a quorum ends trajectories by the clock, and then their records say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Any

from paceline.errors import BadInput
from paceline.groups.asking import asker, cancel, cancelled, run_to_its_end
from paceline.groups.groups import Groups
from paceline.groups.prompts import Prompter, parse
from paceline.groups.queueing import Turnstile
from paceline.groups.trajectory import Trajectory
from paceline.groups.turns import Ticket, check_straggling, tell_of, whole
from paceline.seeds import seed_of
from paceline.types import Failure, Reply, Turn

_POLL = 1e-3, 5e-3  # seconds for which the environments may keep the loop from the network: at first, and at most
_SEED_BITS = 31  # what every endpoint takes for a seed


@dataclass
class Spent:
    """What a rollout has asked for, and where its time went.

    Attributes:
        requests: Questions that were answered.
        unanswered: Questions that were not: the policy raised.
        invalid: Answers in which there was no action.
        retries: How often a question was asked again, in vain or not.
        prompt_tokens: As the endpoint counted them.
        completion_tokens: The same for the answers.
        cut_off: Answers that were longer than they might be.
        policy_seconds: With the policy, summed over questions; many are with it at once.
        env_seconds: With the environments.
        seconds: From the beginning to the end.
    """

    requests: int = 0
    unanswered: int = 0
    invalid: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut_off: int = 0
    policy_seconds: float = 0.0
    env_seconds: float = 0.0
    seconds: float = 0.0

    def take(self, reply: Reply, seconds: float) -> None:
        """Counts one answer."""
        self.requests += 1
        self.retries += reply.retries
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.cut_off += reply.finish_reason == "length"
        self.policy_seconds += seconds


@dataclass
class Played:
    """What came of it.

    Attributes:
        states: The rollout states, with metrics, in the order of the environments.
        digest: Of the trajectories since the last reset.
        usage: Requests, tokens, and where the time went.
        replies: Environment → what the policy said, turn by turn.
    """

    states: list[dict[str, Any]]
    digest: str
    usage: Spent
    replies: dict[int, list[Reply]] = field(default_factory=dict)


def prompters(groups: Groups) -> dict[str, Prompter]:
    """Tag → what writes its conversations."""
    config = groups.config
    return {name: Prompter(tag, groups.factories[name], config.talk) for name, tag in config.tags.items()}


OnEnd = Callable[[Trajectory, list[Reply]], None]


def rollout(
    groups: Groups,
    policy: Any,
    *,
    max_turns: int | None = None,
    concurrency: int = 64,
    only: Collection[int] | None = None,
    deadline: float | None = None,
    quorum: float | None = None,
    on_end: OnEnd | None = None,
    usage: Spent | None = None,
) -> Played:
    """Plays every trajectory to its end; see `arollout`, which is for where an event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_to_its_end(
            arollout(
                groups,
                policy,
                max_turns=max_turns,
                concurrency=concurrency,
                only=only,
                deadline=deadline,
                quorum=quorum,
                on_end=on_end,
                usage=usage,
            )
        )
    raise BadInput("rollout() cannot be called where an event loop runs, in a notebook say: use `await arollout(…)`")


async def arollout(
    groups: Groups,
    policy: Any,
    *,
    max_turns: int | None = None,
    concurrency: int = 64,
    only: Collection[int] | None = None,
    deadline: float | None = None,
    quorum: float | None = None,
    on_end: OnEnd | None = None,
    usage: Spent | None = None,
) -> Played:
    """Plays the trajectories of `groups`, which has been reset, to their ends.

    Args:
        groups: The environments. One rollout at a time.
        policy: Has `answer(turn)`, or is such a function; a coroutine, or plain (then it is run in a thread).
        max_turns: The most turns of a trajectory, with those that it had before; None: as `agent_proxy.max_turn` says.
        concurrency: How many questions may be with the policy at once; trajectories that are further along go first.
        only: Which environments; None: all.
        deadline: Seconds after which what is not finished is cut. A step that runs in this very process is waited for.
        quorum: The share of trajectories after which the others are cut.
        on_end: Called with every trajectory as it ends, and what was replied in it.
        usage: What is counted into, for whoever wants to know if it is interrupted; None: a new one.
    """
    check_straggling(quorum, deadline)
    turns = groups.config.talk.max_turn if max_turns is None else max_turns
    driver = _Driver(groups, policy, turns, concurrency, on_end, Spent() if usage is None else usage)
    with groups.driven():
        return await driver.run(only, deadline, quorum)


class _Driver:
    def __init__(
        self, groups: Groups, policy: Any, max_turns: int, concurrency: int, on_end: OnEnd | None, usage: Spent
    ) -> None:
        if not groups.begun:
            raise BadInput("rollout() before reset(): there is no episode yet")
        if concurrency < 1 or max_turns < 1:
            raise BadInput(f"concurrency={concurrency}, max_turns={max_turns}: give whole numbers from 1")
        self._groups, self._ask = groups, asker(policy)
        self._max_turns, self._on_end = max_turns, on_end
        self._turnstile = Turnstile(concurrency)
        self._prompters = prompters(groups)
        self._bell = asyncio.Event()  # rung when there is something to step
        self._inputs: list[tuple[dict[str, Any], asyncio.Future[None]]] = []
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._end: float | None = None  # the deadline
        self._usage = usage
        self._replies: dict[int, list[Reply]] = {}

    async def run(self, only: Collection[int] | None, deadline: float | None, quorum: float | None) -> Played:
        start = perf_counter()
        self._end = None if deadline is None else start + deadline
        tasks = {asyncio.ensure_future(self._play(trajectory)): trajectory for trajectory in self._chosen(only)}
        pump = asyncio.ensure_future(self._pump())
        try:
            left, why = await self._until(set(tasks), pump, quorum)
            await cancel(left)
            self._groups.cut([tasks[task] for task in left], why)
            for task in left:
                self._ended(tasks[task])
        finally:
            await cancel({*tasks, pump})
        self._usage.seconds = perf_counter() - start
        states = self._groups.get_rollout_states()
        return Played(states, self._groups.digest(since_reset=True), self._usage, self._replies)

    def _chosen(self, only: Collection[int] | None) -> list[Trajectory]:
        every = self._groups.trajectories
        if only is not None and (unknown := sorted(set(only) - set(range(len(every))))):
            raise BadInput(f"only={unknown[:5]}: there are environments 0 to {len(every) - 1}")
        return [trajectory for trajectory in every if only is None or trajectory.env_id in only]

    async def _until(
        self, left: set[asyncio.Task[None]], pump: asyncio.Task[None], quorum: float | None
    ) -> tuple[set[asyncio.Task[None]], str]:
        """Waits for the end: of everybody, of a quorum, or of the time. Gives who is left then, and why."""
        goal = 0 if quorum is None else len(left) - ceil(quorum * len(left))
        while len(left) > goal:
            timeout = None if self._end is None else max(0.0, self._end - perf_counter())
            done, _ = await asyncio.wait({*left, pump}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what is not a trajectory's own failure is ours to raise
            left = left - done
            if not done or pump in done:
                return left, "deadline"
        return left, "quorum"

    # -- one trajectory --------------------------------------------------------------------------------

    async def _play(self, trajectory: Trajectory) -> None:
        while not trajectory.over and len(trajectory.history) <= self._max_turns:
            try:
                env_input = await self._answered(trajectory)
            except (Exception, asyncio.CancelledError) as error:  # the policy's: this one ends, the others go on
                if cancelled(error):
                    raise
                self._give_up(trajectory, error)
                break
            await self._step(env_input)
        self._ended(trajectory)

    def _give_up(self, trajectory: Trajectory, error: BaseException) -> None:
        trajectory.tries_in_vain = max(1, whole(getattr(error, "tries", 1)) or 1)
        self._usage.unanswered += 1
        self._usage.retries += trajectory.tries_in_vain - 1
        trajectory.fail(Failure.of(error, step=trajectory.status.num_actions))
        tell_of(trajectory)

    async def _answered(self, trajectory: Trajectory) -> dict[str, Any]:
        turn = self._turn(trajectory)
        await self._turnstile.enter(turn.number, turn.env_id)
        try:
            start = perf_counter()
            said = await self._in_time(trajectory, turn)
        finally:
            self._turnstile.leave()
        reply = Reply(said) if isinstance(said, str) else said
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise BadInput(f"the policy answered with {said!r:.60}; expected text or a paceline.types.Reply")
        kept, actions = parse(reply.text, self._groups.config.talk)
        self._usage.take(reply, perf_counter() - start)
        self._usage.invalid += not actions
        self._replies.setdefault(turn.env_id, []).append(reply)
        return {"env_id": turn.env_id, "actions": actions, "llm_response": kept, "llm_raw_response": reply.text}

    async def _in_time(self, trajectory: Trajectory, turn: Turn) -> Any:
        """The answer, if it comes before the trajectory's own time is over."""
        start, limit = perf_counter(), asyncio.timeout(trajectory.time_left)
        try:
            async with limit:
                return await self._ask(turn)
        except TimeoutError:
            if not limit.expired():  # the policy's own
                raise
        finally:
            trajectory.count(perf_counter() - start)
        raise trajectory.out_of_time("its policy was left after")

    def _turn(self, trajectory: Trajectory) -> Turn:
        cache, shown = trajectory.cache, trajectory.history[-1]
        run, number = trajectory.status.seed or 0, len(trajectory.history) - 1
        return Turn(
            env_id=cache["env_id"],
            group_id=cache["group_id"],
            tag=cache["tag"],
            env_type=self._groups.config.tags[cache["tag"]].env_type,
            number=number,
            state=shown["state"],
            actions_left=shown["actions_left"],
            messages=tuple(self._prompters[cache["tag"]].messages(trajectory)),
            seed=seed_of(run, "turn", cache["env_id"], number) >> (63 - _SEED_BITS),
            images=tuple(shown.get("images", ())),
            actions=trajectory.names,
        )

    def _ended(self, trajectory: Trajectory) -> None:
        if self._on_end is not None:
            self._on_end(trajectory, self._replies.get(trajectory.cache["env_id"], []))

    # -- environments ----------------------------------------------------------------------------------

    async def _step(self, env_input: dict[str, Any]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inputs.append((env_input, future))
        self._bell.set()
        await future

    async def _pump(self) -> None:
        """Steps the environments, in the loop's own thread: what is stepped here never runs beside anything else."""
        poll = _POLL[0]
        while self._end is None or perf_counter() < self._end:
            for env_input, future in self._inputs:
                self._waiting[self._groups.submit(env_input)] = future
            self._inputs.clear()
            if self._waiting:
                poll = _POLL[0] if self._hand_back(poll) else min(2 * poll, _POLL[1])
                await asyncio.sleep(0)
            else:
                self._bell.clear()
                await self._bell.wait()

    def _hand_back(self, poll: float) -> bool:
        start = perf_counter()
        answers = self._groups.ready(1, timeout=poll)
        self._usage.env_seconds += perf_counter() - start
        for answer in answers:
            future = self._waiting.pop(answer.ticket, None)
            if future is not None and not future.done():
                future.set_result(None)
        return bool(answers)
