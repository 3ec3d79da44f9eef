"""Which options of a training exclude each other: whether and where results are kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paceline.errors import BadInput


def check_saving(
    out: Path | None, save: bool, resume: Path | None, seeds: int | None, trace: Path | None, kept: Mapping[str, bool]
) -> None:
    """Says which of the options exclude each other.

    Args:
        out: Where results go.
        save: Whether they are kept.
        resume: The run that goes on.
        seeds: How many seeds are trained.
        trace: The file of a trace.
        kept: Options that need a directory → whether they are given.

    Raises:
        BadInput: two of them do.
    """
    if resume is not None and out is not None:
        raise BadInput("--resume and --out both say where the results go: give one of them")
    if not save and (resume is not None or out is not None):
        raise BadInput(f"--no-save and {'--out' if out else '--resume'} contradict each other: give one of them")
    for name in (name for name, wanted in kept.items() if wanted and not save):
        raise BadInput(f"{name} needs a directory: leave --no-save away")
    if seeds is not None and trace is not None:
        raise BadInput("--trace and --seeds do not go together: a trace is of one training")
