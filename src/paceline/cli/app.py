"""The app: `paceline COMMAND`, with one module of this package for each command.

A command module has a function `register(app)`, which adds its command; there is no list to keep. It imports
what is heavy inside the command, so that `paceline --help` stays quick. A module that only helps others has a
name that begins with `_`.

    a user's mistake      error: what, where, what to do, on stderr    exit 2
    Ctrl-C                interrupted, on stderr                       exit 130
    stdout is full        one line that names the results, on stderr   exit 1, if all else went well
    anything else         a traceback: it is a bug, ours or the env's  exit 1
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import paceline.cli
from paceline.cli._terminal import harmless
from paceline.command_signals import COMMAND_SIGNALS, INTERRUPTED
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.errors import BadInput, PacelineError, place

__all__ = ["app", "run"]

_HELP = """Run agents in environments in parallel, and get the very result of running them one after another.

\b
Examples:
  paceline --version
  paceline COMMAND --help
"""


class _Commands(TyperGroup):
    """Within a command's body Ctrl-C is a KeyboardInterrupt. What a command does not take care of ends here."""

    def invoke(self, ctx: Any) -> Any:
        UNINTERRUPTED.front = COMMAND_SIGNALS.handle
        try:
            with COMMAND_SIGNALS.given_to(UNINTERRUPTED.handle):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except SystemExit as error:  # no command of ours ends so
            what = f"code that was loaded called sys.exit(), with {error.code!r}{place(error)}"
            raise BadInput(f"{what}: put it under `if __name__ == '__main__'`, or raise an error instead") from error


app = typer.Typer(
    name="paceline",
    cls=_Commands,
    help=_HELP,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> int:
    """Runs the command line of this process and returns its exit code."""
    try:
        answer = app(prog_name="paceline", standalone_mode=False)
    except PacelineError as mistake:
        return _tell(str(mistake), *getattr(mistake, "__notes__", ()))
    except typer.Abort:
        return _tell("aborted", code=1)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _tell(*_usage(error))
    return answer if isinstance(answer, int) else 0


def _tell(what: str, *details: str, code: int = 2) -> int:
    print(harmless("\n  ".join([f"error: {what}", *details])), file=sys.stderr)
    return code


def _usage(error: Exception) -> list[str]:
    """What, where and what to do, of a command line that cannot be read.

    Some releases of Typer carry click inside and some depend on it, so its exceptions are known by what they
    offer.
    """
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "paceline"
    return [error.format_message(), f"where: {command}", f"what to do: see {command} --help"]  # type: ignore[attr-defined]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"paceline {paceline.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Takes the options that stand before the command, and shows the help if there is no command."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _register_commands() -> None:
    for module in pkgutil.iter_modules(paceline.cli.__path__):
        if module.name != "app" and not module.name.startswith("_"):
            importlib.import_module(f"paceline.cli.{module.name}").register(app)


_register_commands()
