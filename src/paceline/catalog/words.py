"""How missions and policies are written: a name, then options after commas.

forage,agents=4              name,key=value …         values are read as JSON, and as text if they are none
greedy:3,kw.depth=2          name:share,…             a policy's share of the seats
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from paceline.errors import BadInput
from paceline.options import split, value_of

_SHARE = re.compile(r"^(?P<name>.+):(?P<share>\d+(\.\d+)?)$")


def with_keywords(text: str, known: Sequence[str] = ()) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Gives a policy's name, its options, and the keywords that it is built with: those after `kw.`

    Args:
        text: What the user writes.
        known: The options that there are.

    Raises:
        BadInput: an option is none of them.
    """
    name, options = split(text)
    keywords = {key.removeprefix("kw."): options.pop(key) for key in list(options) if key.startswith("kw.")}
    if strange := [key for key in options if key not in known]:
        choice = " or ".join(filter(None, [", ".join(known), f"kw.{strange[0]}"]))
        raise BadInput(f"{strange[0]!r} in {text!r} is no option of a policy: give {choice}")
    return name, options, keywords


def share_of(name: str) -> tuple[str, int | float]:
    """Gives the name without its share, and the share: 1 if none is written."""
    found = _SHARE.match(name)
    return (found["name"], value_of(found["share"])) if found else (name, 1)


def class_first(text: str) -> str:
    """A policy's text with `class=…` in front, wherever it stands."""
    words = [word.strip() for word in text.split(",")]
    return ",".join(sorted(words, key=lambda word: not word.startswith("class=")))


def whole_shares(shares: Sequence[Any]) -> list[int]:
    """Shares as whole numbers in the same proportion: 0.5 and 0.25 are 2 and 1.

    Raises:
        BadInput: one is no number, or below 0.
    """
    exact = []
    for share in shares:
        try:
            exact.append(Fraction(str(share)))
        except (ValueError, ZeroDivisionError):
            raise BadInput(f"proportion={share!r}; give a number, such as 3 or 0.5") from None
        if exact[-1] < 0:
            raise BadInput(f"proportion={share!r}; give 0 or more")
    least = math.lcm(*(share.denominator for share in exact))
    return [int(share * least) for share in exact]
