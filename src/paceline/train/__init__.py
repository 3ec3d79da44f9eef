"""Train: independent learners in one world, each with its own network and rows; one digest wherever they learn."""

from paceline.train.train import train
from paceline.train.training import Training
from paceline.train.updates import Update

__all__ = ["Training", "Update", "train"]
