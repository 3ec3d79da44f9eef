"""One episode for the eyes: in the terminal, or as a moving picture."""

from __future__ import annotations

import itertools
import re
import sys
import time
from pathlib import Path
from typing import Any

from paceline.errors import BadInput
from paceline.evaluate.run import Job, Run
from paceline.evaluate.watching import watch

_PAUSE = 0.08
_HOME, _CLEAR_BELOW, _CLEAR = "\x1b[H", "\x1b[J", "\x1b[2J"
_MILLISECONDS = 80
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def show(run: Run) -> int:
    """Shows the first episode in the terminal; where there is none, one frame after another."""
    job, numbers = next(run.jobs()), itertools.count()
    paint = _animate if sys.stdout.isatty() else _list

    def frame(picture: Any) -> None:
        number = next(numbers)
        paint(f"{run.missions[job.mission].name}/{job.index}, step {number}", _text(picture), number == 0)

    try:
        watch(run, job, "ansi", frame)
    except KeyboardInterrupt:
        return 130
    return 0


def _animate(title: str, text: str, first: bool) -> None:
    print(f"{_CLEAR if first else ''}{_HOME}{title}\n{text}{_CLEAR_BELOW}", flush=True)
    time.sleep(_PAUSE)


def _list(title: str, text: str, first: bool) -> None:
    print(f"{title}\n{_COLOURS.sub('', text)}\n")


def draw(run: Run, path: Path) -> int:
    """Writes the first episode as a GIF."""
    try:
        from PIL import Image
    except ImportError as error:
        raise BadInput("--gif needs Pillow: pip install 'paceline[report]'") from error
    job: Job = next(run.jobs())
    pictures: list[Any] = []
    watch(run, job, "rgb_array", lambda frame: pictures.append(Image.fromarray(_picture(frame))))
    try:
        pictures[0].save(path, format="GIF", save_all=True, append_images=pictures[1:], duration=_MILLISECONDS, loop=0)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    print(f"{path}: {len(pictures)} frames of {run.missions[job.mission].name}/{job.index}", file=sys.stderr)
    return 0


def _picture(frame: Any) -> Any:
    if getattr(frame, "ndim", 0) != 3 or getattr(frame, "dtype", None) != "uint8":
        raise BadInput(
            f"render() gave a {type(frame).__name__}, where --gif needs an array of pixels: uint8, (h, w, 3)"
        )
    return frame


def _text(frame: Any) -> str:
    return str(frame.getvalue() if hasattr(frame, "getvalue") else frame).rstrip("\n") + "\n"
