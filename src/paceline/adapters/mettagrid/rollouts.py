"""`multi_episode_rollout`: upstream's loop over episodes, by its own signature, with episodes in parallel.

PolicySpecs, assignments, a MettaGridConfig ──► one evaluation ──► MultiEpisodeRolloutResult, in plan order
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from mettagrid.config.mettagrid_config import MettaGridConfig
from mettagrid.policy.policy_spec import PolicySpec
from mettagrid.simulator.multi_episode.rollout import EpisodeRolloutResult, MultiEpisodeRolloutResult

from paceline.adapters.mettagrid.missions import Asked, Recipe
from paceline.adapters.mettagrid.policies import loaded
from paceline.adapters.mettagrid.short_names import short_names
from paceline.adapters.mettagrid.specs import Wanted
from paceline.engine import Plan
from paceline.errors import BadInput, PacelineError
from paceline.evaluate import evaluate
from paceline.team import Player
from paceline.types import Episode, Mission


def multi_episode_rollout(
    *,
    policy_specs: Sequence[PolicySpec],
    assignments: Sequence[int],
    env_cfg: MettaGridConfig,
    episodes: int,
    seed: int,
    max_action_time_ms: int | None = None,
    overage_budget_ms: int | None = None,
    replay_dir: str | Path | None = None,
    create_replay_dir: bool = False,
    rng: random.Random | None = None,
    device: str | None = None,
    on_progress: Callable[[int, EpisodeRolloutResult], None] | None = None,
    shuffle_assignments: bool = True,
    game_engine: str | None = None,
    jobs: int = 0,
) -> tuple[MultiEpisodeRolloutResult, list[str]]:
    """Plays episodes as `mettagrid.runner.rollout.run_multi_episode_rollout` does, `jobs` of them side by side.

    Seats, seeds, rewards, steps and stats are upstream's, at any number of jobs. Policies that draw from process-wide
    generators have streams of their own per episode, so they are reproducible too.

    Args:
        policy_specs: The policies.
        assignments: The number of the policy at each seat.
        env_cfg: The mission.
        episodes: How many; episode `i` has the seed `seed + i`.
        seed: Of the first episode, and of the shuffles.
        max_action_time_ms: A later action becomes noop, as upstream has it; None: there is no limit, and results do not
            follow the clock.
        overage_budget_ms: Not supported: must be None.
        replay_dir: A directory for replays, named by episode and seed.
        create_replay_dir: Whether to make that directory.
        rng: Shuffles the seats; None: `random.Random(seed)`.
        device: For networks; None: the CPU.
        on_progress: Told of every episode when it has ended.
        shuffle_assignments: Whether seats are shuffled before each episode.
        game_engine: Only "mettagrid".
        jobs: Workers; 0: here, one after another.

    Returns:
        The episodes in their order, and the paths of their replays.

    Raises:
        PacelineError: an episode failed; says which, and why. `BadInput`: something that makes no sense was asked.
    """
    _check(assignments, env_cfg, len(policy_specs), overage_budget_ms, game_engine, replay_dir, create_replay_dir, jobs)
    rows = _seatings(assignments, episodes, rng or random.Random(seed), shuffle_assignments)
    mission = Mission(env_cfg.label, Recipe(env_cfg, Asked()), seating=rows)
    limit = None if max_action_time_ms is None else max_action_time_ms / 1000
    players = [_player(number, spec) for number, spec in enumerate(policy_specs)]

    def watch(episode: Episode, done: int, total: int) -> None:
        if on_progress is not None and episode.failure is None:
            on_progress(episode.index, _result(episode, rows[episode.index], env_cfg))

    report = evaluate(
        mission,
        players,
        episodes=episodes,
        seed=seed,
        device=device or "cpu",
        plan=Plan("process", jobs) if jobs else Plan("inline", 1),
        agents="off",
        on_error="stop",
        action_limit=limit,
        timeout_action="late" if limit is None else "noop",
        replays=replay_dir,
        watcher=watch,
    )
    for episode in report.failures:
        raise _failed(episode)
    results = [_result(episode, rows[episode.index], env_cfg) for episode in report.episodes]
    return MultiEpisodeRolloutResult(episodes=results), [e.replay for e in report.episodes if e.replay is not None]


def _check(
    assignments: Sequence[int],
    config: MettaGridConfig,
    policies: int,
    overage_budget_ms: int | None,
    game_engine: str | None,
    replay_dir: str | Path | None,
    create_replay_dir: bool,
    jobs: int,
) -> None:
    if len(assignments) != config.game.num_agents or not all(0 <= number < policies for number in assignments):
        raise BadInput(f"assignments must name one of {policies} policies for each of {config.game.num_agents} agents")
    if jobs < 0:
        raise BadInput(f"jobs={jobs}; give 0 (here), or a number of workers")
    if overage_budget_ms is not None:
        raise BadInput("overage_budget_ms is not supported: give None")
    if (game_engine or config.game_engine) != "mettagrid":
        raise BadInput(f"game_engine={game_engine!r}: only 'mettagrid' can be played here")
    if replay_dir is not None and not create_replay_dir and not Path(replay_dir).is_dir():
        raise BadInput(f"there is no directory {replay_dir}: make it, or say create_replay_dir=True")


def _seatings(
    assignments: Sequence[int], episodes: int, rng: random.Random, shuffle: bool
) -> tuple[tuple[int, ...], ...]:
    order, rows = list(assignments), []
    for _ in range(episodes):
        if shuffle:
            rng.shuffle(order)
        rows.append(tuple(order))
    return tuple(rows)


def _player(number: int, spec: PolicySpec) -> Player:
    source = loaded(short_names().get(spec.class_path, spec.class_path))
    return Player(f"{number}:{spec.name}", Wanted(spec.init_kwargs, spec.data_path).cogs(source))


def _result(episode: Episode, row: Sequence[int], config: MettaGridConfig) -> EpisodeRolloutResult:
    return EpisodeRolloutResult(
        assignments=list(row),
        rewards=list(episode.rewards.values()),
        action_timeouts=[episode.late.get(agent, 0) for agent in episode.rewards],
        stats={"game": episode.game_stats, "agent": list(episode.stats.values())},
        replay_path=episode.replay,
        steps=episode.steps,
        max_steps=config.game.max_steps,
        time_averaged_game_stats=episode.time_averaged_game_stats,
    )


def _failed(episode: Episode) -> PacelineError:
    failure = episode.failure
    assert failure is not None
    who = f"policy {failure.policy!r} of {failure.agent}" if failure.agent else "the environment or its worker"
    error = PacelineError(f"episode {episode.index}, step {failure.step}, {who}: {failure.kind}: {failure.message}")
    error.add_note(failure.traceback)
    return error
