"""Experiments in the style of Sorrel, their objects unchanged: with workers, and with the result of one process.

environment.py   ParallelEnvironment, wrapper or mixin
experiment.py    the loop of epochs
turns.py         a turn: the environment's own, each agent with random streams of its own
asking.py        answers computed in workers, used where they still hold
learning.py      trainings: when, where, and when their weights act · learner.py one of them
weights.py       what is looked at after a training: whether it diverged
replica.py       an object here and its copy elsewhere, kept the same · parts/ what a change is
buffer.py        Buffer, ThreadSafe, ThreadSafeBuffer
config.py        the block `parallel` · record.py what a run leaves
outputs.py       what it writes: log rows, pictures, weights
"""

from paceline.adapters.sorrel.buffer import Buffer, ThreadSafe, ThreadSafeBuffer
from paceline.adapters.sorrel.config import Parallel
from paceline.adapters.sorrel.environment import ParallelEnvironment
from paceline.adapters.sorrel.record import Record

__all__ = ["Buffer", "Parallel", "ParallelEnvironment", "Record", "ThreadSafe", "ThreadSafeBuffer"]
