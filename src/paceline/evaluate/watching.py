"""Watching: one episode, frame by frame, as its environment draws itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paceline.errors import BadInput
from paceline.evaluate.run import Job, Run
from paceline.rollout import Rollout
from paceline.team import Team


def frames(run: Run, job: Job, render_mode: str) -> Iterator[Any]:
    """Plays an episode here, and gives what it looks like before each step and at the end.

    Args:
        run: What is played.
        job: Which episode.
        render_mode: "ansi" for text, "rgb_array" for pictures.

    Raises:
        BadInput: the environment cannot show itself so.
    """
    mission = run.missions[job.mission]
    try:
        rollout = Rollout(mission, job.index, run.seed_of(job), device=run.device, options={"render_mode": render_mode})
    except Exception as error:
        raise BadInput(f"mission {mission.name!r} cannot be shown as {render_mode}: {error}") from error
    try:
        seats = rollout.seats()
        here = run.here()
        with Team.seated(seats, here.players, run.seating(job, len(seats)), here.setting, run.key(job)) as team:
            obs = rollout.reset()
            yield _frame(rollout, mission.name, render_mode)
            while not rollout.over:
                obs = rollout.step(team.act(obs))
                yield _frame(rollout, mission.name, render_mode)
    finally:
        rollout.close()


def _frame(rollout: Rollout, name: str, render_mode: str) -> Any:
    frame = rollout.env.render()
    if frame is None:
        raise BadInput(f"mission {name!r} draws nothing as {render_mode}; --gif needs 'rgb_array', --watch 'ansi'")
    return frame
