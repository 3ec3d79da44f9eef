"""The command `paceline`: a fixed hash seed first, then the app.

Python salts `hash()` of strings anew in each process unless PYTHONHASHSEED is set before it starts. The order
of a set in a user's env would then change from run to run, and with it the result. So the command starts
itself again, once.
"""

from __future__ import annotations

import os
import sys

from paceline.cli._output import OUTPUT
from paceline.command_signals import COMMAND_SIGNALS, RESTARTED

__all__ = ["main"]


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    COMMAND_SIGNALS.install()
    _fix_hash_seed()
    OUTPUT.take()
    from paceline.cli.app import run  # here, because the first of two starts does not need it

    code = OUTPUT.end(run())
    COMMAND_SIGNALS.settle(code)
    sys.exit(code)


def _fix_hash_seed() -> None:
    """Starts this very command again with PYTHONHASHSEED=0, unless the variable is set or is ignored."""
    restarted = os.environ.pop(RESTARTED, None)
    if "PYTHONHASHSEED" in os.environ or sys.flags.ignore_environment:
        return
    # Something that takes the variable away while Python starts would otherwise have us start again for ever.
    if restarted is None:
        COMMAND_SIGNALS.hold_back()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], _environment())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0", RESTARTED: "1"}
