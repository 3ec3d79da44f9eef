"""Published values: large arrays that main writes once and every worker copies for itself, weights above all.

    Published(weights) ── large arrays in shared memory, once ──► in a call: its place ──► get() ──► a copy of its own

What a call carries is the place and a small pickle, so that neither messages nor journals hold the arrays; there is one
copy of them, that of the version in use. Workers on another machine fetch them at every `get`.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from paceline.engine.transport import codec
from paceline.engine.transport.plain_data import Plain
from paceline.engine.transport.shared_arrays import SharedArrays


class Published:
    """A value whose large arrays lie in shared memory.

    Args:
        value: What is published; a copy is taken.

    Raises:
        NotSendable: it cannot be pickled.
    """

    def __init__(self, value: Any) -> None:
        self.name = secrets.token_hex(8)
        """Tells it from all others, wherever it has been sent."""
        packed = codec.pack(value)
        assert not isinstance(packed, Plain)
        self._head, buffers = (packed, []) if isinstance(packed, bytes) else packed
        raw = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        layout = {str(number): (part.shape, "|u1") for number, part in enumerate(raw)}
        self._shared = SharedArrays(layout) if raw else None
        for number, part in enumerate(raw):
            self._arrays[str(number)][:] = part

    @property
    def _arrays(self) -> dict[str, Any]:
        return {} if self._shared is None else self._shared.arrays

    def get(self) -> Any:
        """The value: a copy of its own at every call."""
        if self._shared is None:
            return codec.unpack(self._head)
        self._shared.fetch()
        return codec.unpack((self._head, [bytearray(array) for array in self._arrays.values()]))
