"""Plays trajectories to their ends: asks the policy and steps the environments at the same time, each at its own pace.

    trajectory ──► question ──► policy (so many at once) ──► answer ──► submit ──► ready ──► next turn
    trajectory ──► …            no trajectory waits for another's turn: there is no barrier

What a trajectory becomes depends on its environment and its answers alone, so the order of arrival changes nothing.
Only a deadline or a quorum ends trajectories by the clock, and then their records say so.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from math import ceil
from time import perf_counter
from typing import Any

from paceline.errors import BadInput
from paceline.groups.groups import Answer, Groups
from paceline.groups.prompts import Prompter, parse
from paceline.groups.trajectory import Trajectory
from paceline.groups.turns import fail
from paceline.seeds import seed_of
from paceline.types import Reply, Turn

_POLL = 1e-3  # seconds for which the environments may keep the loop from the network
_SEED_BITS = 31  # what every endpoint takes for a seed


@dataclass
class Usage:
    """What a rollout has asked for, and where its time went."""

    requests: int = 0
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
class Rollout:
    """What came of it.

    Attributes:
        states: The rollout states, with metrics, in the order of the environments.
        digest: Of all trajectories.
        usage: Requests, tokens, and where the time went.
        replies: Environment → what the policy said, turn by turn.
    """

    states: list[dict[str, Any]]
    digest: str
    usage: Usage
    replies: dict[int, list[Reply]] = field(default_factory=dict)


def prompters(groups: Groups) -> dict[str, Prompter]:
    """Tag → what writes its conversations."""
    config = groups.config
    return {name: Prompter(tag, groups.factories[name], config.talk) for name, tag in config.tags.items()}


OnEnd = Callable[[Trajectory, list[Reply]], None]


def rollout(groups: Groups, policy: Any, **options: Any) -> Rollout:
    """Plays every trajectory to its end; see `arollout` for the options."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(arollout(groups, policy, **options))
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
) -> Rollout:
    """Plays the trajectories of `groups`, which has been reset, to their ends.

    Args:
        groups: The environments.
        policy: Has `answer(turn)`, or is such a function; a coroutine, or plain (then it is run in a thread).
        max_turns: Turns of a trajectory; None: as `agent_proxy.max_turn` says.
        concurrency: How many questions may be with the policy at once.
        only: Which environments; None: all.
        deadline: Seconds after which what is not finished is cut.
        quorum: The share of trajectories after which the others are cut.
        on_end: Called with every trajectory as it ends, and what was replied in it.
    """
    driver = _Driver(groups, policy, max_turns or groups.config.talk.max_turn, concurrency, on_end)
    return await driver.run(only, deadline, quorum)


class _Driver:
    def __init__(self, groups: Groups, policy: Any, max_turns: int, concurrency: int, on_end: OnEnd | None) -> None:
        if not groups.begun:
            raise BadInput("rollout() before reset(): there is no episode yet")
        if concurrency < 1 or max_turns < 1:
            raise BadInput(f"concurrency={concurrency}, max_turns={max_turns}: give whole numbers from 1")
        self._groups, self._ask = groups, _asker(policy)
        self._max_turns, self._on_end = max_turns, on_end
        self._places = asyncio.Semaphore(concurrency)
        self._prompters = prompters(groups)
        self._bell = asyncio.Event()  # rung when there is something to step
        self._inputs: list[tuple[dict[str, Any], asyncio.Future[Answer]]] = []
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._usage, self._replies = Usage(), {}  # type: Usage, dict[int, list[Reply]]

    async def run(self, only: Collection[int] | None, deadline: float | None, quorum: float | None) -> Rollout:
        start = perf_counter()
        chosen = [t for t in self._groups.trajectories if only is None or t.cache["env_id"] in only]
        tasks = {asyncio.ensure_future(self._play(trajectory)): trajectory for trajectory in chosen}
        pump = asyncio.ensure_future(self._pump())
        try:
            await self._until(tasks, pump, deadline, quorum)
        finally:
            await _cancel([*tasks, pump])
        self._usage.seconds = perf_counter() - start
        return Rollout(self._groups.get_rollout_states(), self._groups.digest(), self._usage, self._replies)

    async def _until(
        self,
        tasks: dict[asyncio.Task[None], Trajectory],
        pump: asyncio.Task[None],
        deadline: float | None,
        quorum: float | None,
    ) -> None:
        goal = 0 if quorum is None else len(tasks) - ceil(quorum * len(tasks))
        end = None if deadline is None else perf_counter() + deadline
        left = set(tasks)
        while len(left) > goal:
            timeout = None if end is None else max(0.0, end - perf_counter())
            done, _ = await asyncio.wait({*left, pump}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # what is not a trajectory's own failure is ours to raise
            left -= done
            if not done:
                break
        await _cancel(list(left))
        for task in left:
            tasks[task].cut("deadline" if quorum is None else "quorum")
            self._ended(tasks[task])

    # -- one trajectory --------------------------------------------------------------------------------

    async def _play(self, trajectory: Trajectory) -> None:
        for number in range(self._max_turns):
            if trajectory.over:
                break
            try:
                reply = await self._reply(trajectory, number)
            except Exception as error:  # the policy's: this trajectory ends, the others go on
                fail(trajectory, error, {"actions": [], "llm_response": "", "llm_raw_response": ""})
                break
            kept, actions = parse(reply.text, self._groups.config.talk)
            env_id = trajectory.cache["env_id"]
            await self._step(
                {"env_id": env_id, "actions": actions, "llm_response": kept, "llm_raw_response": reply.text}
            )
        self._ended(trajectory)

    async def _reply(self, trajectory: Trajectory, number: int) -> Reply:
        turn = self._turn(trajectory, number)
        async with self._places:
            start = perf_counter()
            said = await self._ask(turn)
        reply = Reply(said) if isinstance(said, str) else said
        if not isinstance(reply, Reply):
            raise BadInput(f"the policy answered with a {type(said).__name__}; expected text or a paceline.types.Reply")
        self._usage.take(reply, perf_counter() - start)
        self._replies.setdefault(turn.env_id, []).append(reply)
        return reply

    def _turn(self, trajectory: Trajectory, number: int) -> Turn:
        cache, shown = trajectory.cache, trajectory.history[-1]
        run = trajectory.status.seed or 0
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

    async def _step(self, env_input: dict[str, Any]) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._inputs.append((env_input, future))
        self._bell.set()
        return await future

    async def _pump(self) -> None:
        """Steps the environments, in the loop's own thread: what is stepped here never runs beside anything else."""
        while True:
            for env_input, future in self._inputs:
                self._groups.submit(env_input)
                self._waiting[env_input["env_id"]] = future
            self._inputs.clear()
            if self._waiting:
                self._hand_back()
                await asyncio.sleep(0)
            else:
                self._bell.clear()
                await self._bell.wait()

    def _hand_back(self) -> None:
        start = perf_counter()
        answers = self._groups.ready(1, timeout=_POLL)
        self._usage.env_seconds += perf_counter() - start
        for answer in answers:
            future = self._waiting.pop(answer.env_id, None)
            if future is not None and not future.done():
                future.set_result(answer)


def _asker(policy: Any) -> Callable[[Turn], Awaitable[Any]]:
    answer = getattr(policy, "answer", policy)
    if not callable(answer):
        raise BadInput(f"the policy is a {type(policy).__name__}; it needs answer(turn), or must be such a function")

    async def ask(turn: Turn) -> Any:
        said = answer(turn) if inspect.iscoroutinefunction(answer) else await asyncio.to_thread(answer, turn)
        return await said if inspect.isawaitable(said) else said

    return ask


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
