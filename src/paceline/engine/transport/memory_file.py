"""Unnamed files in memory, which other processes can map or read."""

from __future__ import annotations

import os

from paceline.errors import TooLarge


def unnamed(name: str, nbytes: int) -> int:
    """Makes one of so many bytes, all zeros. Gives its descriptor.

    Raises:
        TooLarge: such a file may not be had: the limit on the size of files holds in memory, too.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, nbytes)
    except OSError as error:
        os.close(fd)
        raise no_room(nbytes, error) from error
    return fd


def no_room(nbytes: int, error: OSError) -> TooLarge:
    """What is said where there is no room for so many bytes."""
    return TooLarge(
        f"{nbytes:,} bytes of shared memory cannot be had: {error.strerror}; a limit on the size of files (ulimit -f) "
        "holds there, too"
    )
