"""Names with options, as users write missions, policies and learners: `name,key=value,…`."""

from __future__ import annotations

import json
from typing import Any

from paceline.errors import BadInput


def split(text: str) -> tuple[str, dict[str, Any]]:
    """Gives the name and the options of `name,key=value,…`; values are read as JSON, and as text if they are none.

    Raises:
        BadInput: a word is no option, an option is given twice, or there is no name.
    """
    name, *words = (word.strip() for word in text.split(","))
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise BadInput(f"{word!r} in {text!r} is no option: write key=value")
        if key in options:
            raise BadInput(f"{key!r} is given twice in {text!r}")
        options[key] = value_of(value)
    if not name:
        raise BadInput(f"{text!r} has no name before its options")
    return name, options


def value_of(text: str) -> Any:
    """What a user has written, read as JSON, and as text if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
