"""Watching: one episode, frame by frame, as its environment draws itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.errors import BadInput
from paceline.evaluate.run import Job, Run
from paceline.rollout import Actions, Observations, Rollout, play
from paceline.team import Team


def watch(run: Run, job: Job, render_mode: str, show: Callable[[Any], None]) -> None:
    """Plays an episode here, and shows what it looks like before each step and at the end.

    Args:
        run: What is played.
        job: Which episode.
        render_mode: "ansi" for text, "rgb_array" for pictures.
        show: Is given every frame.

    Raises:
        BadInput: the environment cannot show itself so.
    """
    rollout = _Shown(run, job, render_mode, show)
    try:
        seats, here = rollout.seats(), run.here()
        with Team.seated(seats, here.players, run.seating(job, len(seats)), here.setting, run.key(job)) as team:
            play(rollout, team)
    finally:
        rollout.close()


class _Shown(Rollout):
    """A rollout that draws itself."""

    def __init__(self, run: Run, job: Job, render_mode: str, show: Callable[[Any], None]) -> None:
        mission = run.missions[job.mission]
        self._name, self._render_mode, self._show = mission.name, render_mode, show
        try:
            super().__init__(
                mission, job.index, run.seed_of(job), device=run.device, options={"render_mode": render_mode}
            )
        except Exception as error:
            raise BadInput(f"mission {mission.name!r} cannot be shown as {render_mode}: {error}") from error

    def reset(self) -> Observations:
        return self._drawn(super().reset())

    def step(self, actions: Actions) -> Observations:
        return self._drawn(super().step(actions))

    def _drawn(self, observations: Observations) -> Observations:
        frame = self.env.render()
        if frame is None:
            raise BadInput(
                f"mission {self._name!r} draws nothing as {self._render_mode}; --gif needs 'rgb_array', --watch 'ansi'"
            )
        self._show(frame)
        return observations
