"""What groups of text environments gain and cost, against unconnected loops, here, the source design, and threads.

    python benchmarks/groups.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. See README.md for how to read the
table.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from apart import Apart
from command import run
from loops import SourceDesign, SubmitPerEnv, ThreadPerEnv, make, serve
from quiet import Quiet, Row, gain_row, interleave, ratio_row, repeat
from unconnected import Unconnected

from paceline.groups import Groups
from paceline.groups.driver import rollout
from paceline.policies.chat import ChatPolicy
from paceline.policies.expert_chat import ExpertChat
from paceline.policies.scripted_text import RandomWords
from paceline.testing import Faults, LlmServer


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 9
    rooms: int = 128
    shops: int = 128
    turns: int = 12  # half a second: the first ones after a pause are slow
    cheap: int = 64
    moves: int = 6  # four steps each
    seconds: float = 0.5  # of steps, at least: the first ones after a pause are slow
    agents: int = 64
    agent_rounds: int = 5


QUICK = Sizes(rounds=3, rooms=32, shops=8, turns=4, cheap=16, moves=2, seconds=0.1, agents=16, agent_rounds=1)
ROOM = {"dim_x": 6, "dim_y": 6, "num_boxes": 3, "search_depth": 100}


def config(tag: str, groups: int, *, size: int = 1, most: int = 1_000_000, **env_config: Any) -> dict[str, Any]:
    kinds = {"WebShop": "webshop", "FrozenLake": "frozen_lake", "Weight": "weights:Weight"}
    side = {"env_groups": groups, "group_size": size, "env_configs": {"tags": [tag], "n_groups": [groups]}}
    kind = kinds.get(tag, tag.lower())
    custom = {tag: {"env_type": kind, "max_actions_per_traj": most, "env_config": env_config}}
    return {"es_manager": {"train": side}, "custom_envs": custom, "agent_proxy": {"max_turn": 6}}


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# -- 1 and 2: two workers against two loops that know nothing of each other -------------------------------


def rooms(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Sokoban rooms of new seeds: two unconnected loops / a reset of groups on two workers."""
    peer, half = Unconnected(serve), sizes.rooms // 2
    seeds = itertools.count(0, sizes.rooms)

    with Groups(config("Sokoban", sizes.rooms, **ROOM), plan=2) as groups:
        groups.reset(seed=next(seeds))

        def theirs() -> float:
            first = next(seeds)
            parts = [
                [("sokoban", ROOM, first + number) for number in range(begin, begin + half)] for begin in (0, half)
            ]
            return timed(lambda: peer.ask([("make", part) for part in parts]))

        contestants = {"ours": lambda: timed(lambda: groups.reset(seed=next(seeds))), "theirs": theirs}
        slices = interleave(quiet, contestants, sizes.rounds)
    peer.close()
    yield gain_row(f"efficiency, {sizes.rooms} rooms: 2 unconnected loops / 2 workers", *_pair(slices), 0.9)


def shops(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Turns of WebShop, a search and the way back: two unconnected loops / steps of groups on two workers.

    Everybody searches for what its instruction says. Then a quarter of the shops; then searches of three words, which
    take an eighth of the time.
    """
    slices = _shop(quiet, sizes, sizes.shops, _instruction)
    yield gain_row(f"efficiency, {sizes.shops} shops: 2 unconnected loops / 2 workers", *_pair(slices), 0.9)
    yield gain_row("… 2 loops that wait for each other after every turn / 2 workers", slices["ours"], slices["in step"])
    slices = _shop(quiet, sizes, sizes.shops // 4, _instruction)
    yield gain_row(f"… {sizes.shops // 4} shops: 2 unconnected loops / 2 workers", *_pair(slices))
    slices = _shop(quiet, sizes, sizes.shops, lambda page: "red cotton shirt")
    yield gain_row("… searches of three words: 2 unconnected loops / 2 workers", *_pair(slices))


def _shop(quiet: Quiet, sizes: Sizes, shops: int, query_of: Callable[[str], str]) -> dict[str, Any]:
    peer = Unconnected(serve)
    orders = [("webshop", {}, number) for number in range(shops)]
    make(orders[:1])  # the index is built once per machine
    peer.ask([("make", part) for part in _halves(orders)])
    turns = sizes.turns * sizes.shops // shops

    with Groups(config("WebShop", shops), plan=2) as groups:
        queries = [query_of(cache["history"][0]["state"]) for cache in groups.reset(seed=0)]

        def ours() -> float:
            played = [[_said(n, action) for n, action in enumerate(actions)] for actions in _shopping(queries, turns)]
            return timed(lambda: [groups.step(inputs) for inputs in played])

        def theirs() -> float:
            parts = list(zip(*map(_halves, _shopping(queries, turns)), strict=True))
            return timed(lambda: peer.ask([("play", part) for part in parts]))

        def in_step() -> float:
            played = list(map(_halves, _shopping(queries, turns)))
            return timed(lambda: [peer.ask([("play", [part]) for part in parts]) for parts in played])

        slices = interleave(quiet, {"ours": ours, "theirs": theirs, "in step": in_step}, sizes.rounds)
    peer.close()
    return slices


def _instruction(page: str) -> str:
    return page.split(" [SEP] ")[2]


def _halves(shops: Sequence[Any]) -> list[Sequence[Any]]:
    """As groups deal them out."""
    return [shops[0::2], shops[1::2]]


def _shopping(queries: list[str], turns: int) -> list[list[str]]:
    """Everybody searches, with a word more that nobody has searched for yet, and goes back."""
    return [
        actions
        for _ in range(turns // 2)
        for actions in (
            [f"search[{query} x{time.perf_counter_ns()}]" for query in queries],
            ["click[Back to Search]"] * len(queries),
        )
    ]


# -- 3: cheap environments -------------------------------------------------------------------------------


def cheap(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Episodes of cheap environments with a random policy: auto / inline."""
    for tag in ("Bandit", "Countdown", "FrozenLake"):
        with (
            Groups(config(tag, sizes.cheap, most=10), plan="auto") as auto,
            Groups(config(tag, sizes.cheap, most=10), plan="inline") as here,
        ):

            def episodes(groups: Groups) -> float:
                def play() -> None:
                    for seed in range(12):
                        groups.reset(seed=seed)
                        rollout(groups, RandomWords(2), max_turns=3)

                return timed(play)

            contestants = {"ours": lambda auto=auto: episodes(auto), "theirs": lambda here=here: episodes(here)}
            slices = interleave(quiet, contestants, sizes.rounds)
        yield ratio_row(f"{tag}: auto / inline", *_pair(slices), 1.05)


# -- 4: the source design --------------------------------------------------------------------------------


_COUNT = 128
_PEERS = {"source": SourceDesign, "lean": SubmitPerEnv, "threads": ThreadPerEnv}


def source(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """A step of 128 Sokoban environments, 24 an episode (8 with --quick): source design / groups; others / groups.

    Each in a process of its own.
    """
    with ExitStack() as apart:
        names = ("ours", *_PEERS)
        contestants = {name: apart.enter_context(Apart(_stepping, name, sizes.moves, sizes.seconds)) for name in names}
        slices = interleave(quiet, contestants, 2 * sizes.rounds)
    yield gain_row(f"a step of {_COUNT} Sokobans: source design / groups", slices["ours"], slices["source"], 10)
    yield gain_row("… a submit per environment that sends actions alone / groups", slices["ours"], slices["lean"])
    yield gain_row("… one thread per environment / groups", slices["ours"], slices["threads"])


@contextmanager
def _stepping(name: str, moves: int, seconds: float) -> Iterator[Callable[[], float]]:
    """Makes one of them, and gives what runs a slice: seconds per step."""
    if name == "ours":
        with Groups(config("Sokoban", 1, size=_COUNT, max_steps=1_000_000, **ROOM), plan="auto") as groups:
            yield lambda: _steps(lambda: groups.reset(seed=7), groups.step, moves, seconds)
    else:
        peer = _PEERS[name]([("sokoban", {**ROOM, "max_steps": 1_000_000}, 7)] * _COUNT)
        yield lambda: _steps(peer.begin, peer.step, moves, seconds)
        peer.pool.shutdown()


def _steps(begin: Callable[[], Any], step: Callable[[Any], Any], moves: int, enough: float) -> float:
    inputs = [[_said(n, move, _WORDS) for n in range(_COUNT)] for move in ["Up", "Right", "Left", "Down"] * moves]
    episodes, seconds = 0, 0.0
    while seconds < enough:
        begin()
        seconds += timed(lambda: [step(each) for each in inputs])
        episodes += 1
    return seconds / episodes / len(inputs)


# -- 5: memory -------------------------------------------------------------------------------------------


def memory(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Memory of all processes for environments of 4 MB each, by what the environments themselves have."""
    envs, each = 64, 4
    for workers in (1, 2, 4):
        with Groups(config("Weight", envs, megabytes=0), plan=workers) as empty:
            empty.reset(seed=1)
            before = _used(empty)
        with Groups(config("Weight", envs, megabytes=each), plan=workers) as full:
            full.reset(seed=1)
            after = _used(full)
        times = (after - before) / (envs * each * 1e6)
        name = f"memory of {envs} envs of {each} MB on {workers} worker{'s' * (workers > 1)} / {envs} × {each} MB"
        yield Row(name, f"{times:.3f}", "≤ 1.1", "yes" if times <= 1.1 else "no")


def _used(groups: Groups) -> int:
    return sum(psutil.Process(worker.pid).memory_full_info().uss for worker in groups.pool.workers)


# -- 6: an agent behind an endpoint ----------------------------------------------------------------------


def agent(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Sokoban with an expert behind an endpoint that answers in 50–200 ms and fails at times: one by one / rollout."""
    with LlmServer(answer=ExpertChat(2), faults=Faults()) as server:
        digests = set()

        def play(concurrency: int) -> float:
            with Groups(config("Sokoban", sizes.agents // 4, size=4, most=10, num_boxes=1)) as groups:
                groups.reset(seed=1)
                policy = ChatPolicy("test-model", base_url=server.url, temperature=0.0, concurrency=concurrency)
                seconds = timed(lambda: rollout(groups, policy, concurrency=concurrency))
                digests.add(groups.digest())
                assert all(status.failure is None for status in groups.statuses)
                return seconds

        ours = repeat(quiet, lambda: play(sizes.agents), sizes.agent_rounds)
        theirs = repeat(quiet, lambda: play(1), 1)
    assert len(digests) == 1, "the trajectories differ"
    theirs.values, theirs.clean = theirs.values * len(ours.values), theirs.clean * len(ours.values)
    yield gain_row(f"{sizes.agents} agents: one request at a time / rollout", ours, theirs, 5)


def _pair(slices: dict[str, Any]) -> tuple[Any, Any]:
    return slices["ours"], slices["theirs"]


_WORDS = "<think>The box stands left of its target and I stand below it, so I go around. </think>"  # a short thought


def _said(env_id: int, action: str, words: str = "") -> dict[str, Any]:
    text = f"{words}<answer>{action}</answer>"
    return {"env_id": env_id, "actions": [action], "llm_response": text, "llm_raw_response": text}


MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {
    f.__name__: f for f in (rooms, shops, cheap, source, memory, agent)
}


if __name__ == "__main__":
    about = str(__doc__).partition("\n")[0]
    run("Groups", about, MEASURES, Sizes(), QUICK, ("paceline", "numpy", "gymnasium", "openai"))
