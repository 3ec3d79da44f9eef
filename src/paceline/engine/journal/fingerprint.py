"""What a journal keeps of an answer, to know it again: a small one itself, as it travelled; of a large one a check.

To walk through an answer costs more than many a call. A small one is therefore only kept, and walked through if it
ever comes to a replay.
"""

from __future__ import annotations

import zlib
from typing import Any

from paceline.engine.transport import codec, plain_data
from paceline.engine.transport.plain_data import Plain
from paceline.seeds import check

Echo = int | bytes | Plain
"""A check, or the packed answer."""

SMALL = 4096
"""Bytes of an answer that is kept as it is."""


def echo_of(answer: Any, packed: codec.Packed) -> int | None:
    """The check of an answer; None if the packed answer itself is to be kept."""
    if type(packed) in (bytes, Plain) and codec.size(packed) <= SMALL:
        return None
    return _checked(answer, packed)


def recognised(expected: Echo, answer: Any) -> bool:
    """Whether this answer is the one that was kept."""
    packed = plain_data.pack(answer) if isinstance(expected, Plain) else codec.pack(answer)
    if not isinstance(expected, int):
        return packed == expected or _arrived(packed) == _arrived(expected)
    return expected == _checked(answer, packed) or expected == _arrived(packed)


def condensed(echo: Echo) -> int:
    """The check of what was kept: less to keep."""
    return echo if isinstance(echo, int) else _arrived(echo)


def _arrived(packed: codec.Packed) -> int:
    """The check of an answer as its caller got it."""
    try:
        answer = codec.unpack(packed)
    except Exception:  # the caller was told; whoever packs the same again gets the same bytes, or we cannot say
        return _of_pickle(packed)
    return _checked(answer, packed)


def _checked(answer: Any, packed: codec.Packed) -> int:
    try:
        return check(answer)
    except (Exception, RecursionError):  # what cannot be walked (a cycle, say) is checked by its pickle
        return _of_pickle(packed)


def _of_pickle(packed: codec.Packed) -> int:
    if isinstance(packed, Plain):
        return zlib.crc32(packed.head)
    return zlib.crc32(packed if isinstance(packed, bytes) else packed[0])
