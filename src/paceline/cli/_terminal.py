"""What may be shown in a terminal of texts that are not ours."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines


def harmless(text: str) -> str:
    """A text with its control characters written out, so that they do nothing."""
    return _CONTROL.sub(lambda found: repr(found.group())[1:-1], text)
