"""Boards: trainings as TensorBoard shows them, epoch by epoch, or iteration by iteration."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from paceline.errors import BadInput
from paceline.train import Training, Update
from paceline.train.trainer import Trainer

if TYPE_CHECKING:  # it imports torch
    from paceline.meta.loop import Loop


class Events:
    """Event files of TensorBoard.

    What stands in older files of the directory is declared void, and is to be written again: a training that goes on
    plays some of it a second time.

    Args:
        directory: For the files; made with the first of them.

    Raises:
        BadInput: TensorBoard is missing.
    """

    def __init__(self, directory: Path) -> None:
        if find_spec("tensorboard") is None:
            raise BadInput("--tensorboard needs TensorBoard: pip install tensorboard")
        self._directory = directory
        self._writer: Any = None

    def close(self) -> None:
        """Ends the writing. May be called again."""
        if self._writer is not None:
            self._writer.close()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Writes values of one step."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        told = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._opened().add_event(Event(wall_time=time(), step=step, summary=told))

    def _opened(self) -> Any:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if self._writer is None:
            self._writer = EventFileWriter(str(self._directory))
            begin = SessionLog(status=SessionLog.START)  # with step 0: what older files say from there on is void
            self._writer.add_event(Event(wall_time=time(), step=0, session_log=begin))
        return self._writer


class Board(Events):
    """A training as TensorBoard shows it.

    Args:
        directory: For the files; made with the first of them.

    Raises:
        BadInput: TensorBoard is missing.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._epochs = self._records = 0
        self._written: set[tuple[str, int]] = set()

    def tell(self, trainer: Trainer) -> None:
        """Writes what is new; a watcher of `train`."""
        for worlds in trainer.rewards[self._epochs :]:
            self._add_epoch({agent: statistics.fmean(world[agent] for world in worlds) for agent in trainer.job.agents})
        records = trainer.updates.records
        for update in records[self._records :]:
            self._add_update(update)
        self._records = len(records)

    def finish(self, training: Training) -> None:
        """Writes what is not written yet, and ends the writing."""
        for rewards in training.rewards[self._epochs :]:
            self._add_epoch(dict(zip(training.agents, rewards.tolist(), strict=True)))
        for update in training.updates:
            if (update.agent, update.number) not in self._written:
                self._add_update(update)
        self.close()

    def _add_epoch(self, rewards: Mapping[str, float]) -> None:
        mean = {"reward/mean": statistics.fmean(rewards.values())}
        self.add(self._epochs, {**{f"reward/{agent}": value for agent, value in rewards.items()}, **mean})
        self._epochs += 1

    def _add_update(self, update: Update) -> None:
        self._written.add((update.agent, update.number))
        self.add(update.number, {f"{name}/{update.agent}": value for name, value in update.figures.items()})


class MetaBoard(Events):
    """A meta-training as TensorBoard shows it: what is logged, over the steps of its worlds."""

    _written = 0

    def tell(self, loop: Loop) -> None:
        """Writes what is new; a watcher of `meta`."""
        self.write(loop.rows)

    def write(self, rows: Sequence[Mapping[str, float]]) -> None:
        """Writes those rows that are not written yet."""
        for row in rows[self._written :]:
            self.add(int(row["z/env_steps"]), row)
        self._written = len(rows)
