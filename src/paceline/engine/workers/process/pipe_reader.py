"""Main's end of a pipe from a worker: what has come is taken in, and nothing is waited for."""

from __future__ import annotations

import os
import threading


class PipeReader:
    """Reads a pipe as far as it is filled; a subclass says what becomes of the data.

    Args:
        fd: The descriptor to read; closed with the reader.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._reading = threading.Lock()

    def listen(self) -> bool:
        """Takes in what has come. Returns False once nothing more can come."""
        with self._reading:
            while self.fd >= 0:
                try:
                    data = os.read(self.fd, 65536)
                except BlockingIOError:
                    return True
                except OSError:
                    data = b""
                if not data:
                    return False
                self._take(data)
            return False

    def close(self) -> None:
        """Takes in what is left, and closes the descriptor."""
        self.listen()
        with self._reading:
            self._end()
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def _take(self, data: bytes) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        """Nothing more will come."""
