"""Watching: one episode, frame by frame, as its environment draws itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.errors import BadInput, place
from paceline.evaluate.playing import understood
from paceline.evaluate.run import Job, Run
from paceline.rollout import Actions, Observations, Rollout, play
from paceline.team import Mishap, Team
from paceline.types import Episode, Step, Task


def watch(run: Run, job: Job, render_mode: str, show: Callable[[Any], None]) -> None:
    """Plays an episode here, and shows what it looks like before each step and at the end.

    Args:
        run: What is played.
        job: Which episode.
        render_mode: "ansi" for text, "rgb_array" for pictures.
        show: Is given every frame.

    Raises:
        BadInput: the environment cannot show itself so; or it, or a policy, raises something else, which is the cause.
    """
    run = understood(run)
    rollout = _Shown(run, job, render_mode, show)
    try:
        seats, here = rollout.seats(), run.here()
        with Team.seated(
            seats, here.cast(job.mission), run.seating(job, len(seats)), here.setting, run.key(job)
        ) as team:
            play(rollout, team, run.seed_of(job))
    except Mishap as mishap:
        who = f"agent {mishap.agent}, policy {mishap.policy}"
        raise BadInput(_what(rollout.episode, who, mishap.error)) from mishap.error
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(_what(rollout.episode, "the environment", error)) from error
    finally:
        rollout.close()


def _what(episode: Episode, who: str, error: BaseException) -> str:
    return f"{episode.name}, step {episode.steps}, {who}: {type(error).__name__}: {error}{place(error)}"


class _Shown(Rollout):
    """A rollout that draws itself."""

    def __init__(self, run: Run, job: Job, render_mode: str, show: Callable[[Any], None]) -> None:
        mission = run.missions[job.mission]
        self._name, self._render_mode, self._show = mission.name, render_mode, show
        try:
            super().__init__(mission, job.index, device=run.device, options={"render_mode": render_mode})
        except Exception as error:
            what = f"{type(error).__name__}: {error}{place(error)}"
            raise BadInput(
                f"mission {mission.name!r} cannot be shown: it makes no environment with render_mode={render_mode!r}: "
                f"{what}"
            ) from error

    def begin(self, seed: int, task: Task | None = None, *, anew: bool = True) -> Observations:
        observations = super().begin(seed, task, anew=anew)
        self._draw()
        return observations

    def step(self, actions: Actions) -> Step:
        step = super().step(actions)
        self._draw()
        return step

    def _draw(self) -> None:
        if not hasattr(self.env, "render"):
            raise BadInput(f"mission {self._name!r} cannot be shown: its environment has no render()")
        frame = self.env.render()
        if frame is None:
            raise BadInput(
                f"mission {self._name!r} draws nothing as {self._render_mode}; --gif needs 'rgb_array', --watch 'ansi'"
            )
        self._show(frame)
