"""Notes on a collection: what its rollouts did that a user should know of, and that no result shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from paceline.collect.playing import Chunk, Played
from paceline.schedule import Note


def notes_on(chunks: Sequence[Chunk]) -> Iterator[Note]:
    """What there is to tell of what was played."""
    if drawn := sorted({name for chunk in chunks for name in chunk.draws}):
        yield "draws", f"rollouts draw from {', '.join(drawn)}, which they share: they were played one at a time"
    yield from ((text, text) for chunk in chunks for text in chunk.lasting)
    if unclosed := next((chunk.unclosed for chunk in chunks if chunk.unclosed), ""):
        yield "close", f"close() of an environment {unclosed}; its rollouts count"
    played = sorted((each for chunk in chunks for each in chunk.played), key=lambda each: each.index)
    for column in ("actions", "rewards"):
        found = [(each.index, row) for each in played if (row := _first_nan(each, column)) is not None]
        if found:
            index, row = found[0]
            many = f"{len(found)} rollout{'s' if len(found) > 1 else ''}"
            yield column, f"{column} are NaN in {many}, first in rollout {index} after {row} steps"


def _first_nan(played: Played, column: str) -> int | None:
    """After how many steps an agent's column has its first NaN."""
    found = []
    for columns in played.columns.values():
        rows = columns.get(column)
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and (nans := np.isnan(rows)).any():
            found.append(int(nans.reshape(len(rows), -1).any(axis=1).argmax()))
    return min(found, default=None)
