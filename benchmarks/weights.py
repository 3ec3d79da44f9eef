"""An environment that is nothing but memory."""

from __future__ import annotations

from typing import Any

import numpy as np


class Weight:
    """Holds so many megabytes of its own."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self._held = np.ones(int((config or {}).get("megabytes", 0) * 1e6), np.uint8)

    def reset(self, seed: int, mode: str = "train") -> str:
        return self.render()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        return self.render(), 0.0, False, {}

    def render(self) -> str:
        return f"{self._held.nbytes} bytes"
