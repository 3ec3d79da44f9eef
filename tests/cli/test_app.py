"""The command, run as a user runs it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from waits import until_over, until_readable

import paceline

SOURCE = str(Path(paceline.__file__).parents[1])
PACELINE = ("-m", "paceline")


def environment(**more: str) -> dict[str, str]:
    """Ours, but with no hash seed, as in a user's shell; the package is found where the tests found it."""
    path = os.pathsep.join(filter(None, [*more.pop("path", "").split(os.pathsep), SOURCE]))
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    return {**clean, "PYTHONPATH": path, **more}


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env or environment(), timeout=60)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """The real app with commands that go wrong in every way that a command can."""
    path = tmp_path / "program.py"
    path.write_text(
        """
import atexit, os, signal, sys
import typer
from paceline.cli import main
from paceline.cli.app import app
from paceline.errors import BadInput, WorkerLost

@app.command()
def mistake():
    raise BadInput("no mission 'maze' in missions.py: write one of 'arena', 'corridor'")

@app.command()
def lost():
    error = WorkerLost("worker 3 died three times")
    error.add_note("mission 'arena', episode 4, agent 'red', step 17")
    raise error

@app.command()
def parameter():
    raise typer.BadParameter("3 is not a plan")

@app.command()
def bug():
    raise RuntimeError("a bug")

@app.command()
def wait():
    print("ready", flush=True)
    signal.pause()

@app.command()
def late():
    atexit.register(signal.raise_signal, signal.SIGINT)
    atexit.register(print, "closed", flush=True)

@app.command()
def abort():
    raise typer.Abort

@app.command()
def exits():
    sys.exit(4)

@app.command()
def leave():
    raise typer.Exit(7)

@app.command()
def seed(word: str):
    print(os.environ.get("PYTHONHASHSEED"), sys.flags.hash_randomization, sys.warnoptions, word)
    print(sorted(name for name in os.environ if name.startswith("PACELINE") and name != "PACELINE_CACHE"))

main()
"""
    )
    return str(path)


def test_version() -> None:
    answer = run(*PACELINE, "--version")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == f"paceline {version('paceline')}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_examples(flag: str) -> None:
    answer = run(*PACELINE, flag)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "Examples:\n    paceline --version\n" in answer.stdout


def test_no_arguments_show_the_help() -> None:
    answer = run(*PACELINE)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == run(*PACELINE, "--help").stdout


@pytest.mark.parametrize("argument", ["fly", "--fly"])
def test_a_wrong_word_says_what_where_and_what_to_do(argument: str) -> None:
    answer = run(*PACELINE, argument)
    assert (answer.returncode, answer.stdout) == (2, "")
    what, where, remedy = answer.stderr.splitlines()
    assert what.startswith("error: ")
    assert argument in what
    assert (where, remedy) == ("  where: paceline", "  what to do: see paceline --help")


def test_a_missing_argument_names_the_command(program: str) -> None:
    answer = run(program, "seed")
    assert answer.returncode == 2
    assert "WORD" in answer.stderr.upper()
    assert "  where: paceline seed" in answer.stderr.splitlines()


def test_a_users_mistake_is_one_plain_line(program: str) -> None:
    answer = run(program, "mistake")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "error: no mission 'maze' in missions.py: write one of 'arena', 'corridor'\n"


def test_the_notes_of_an_error_say_where(program: str) -> None:
    answer = run(program, "lost")
    assert answer.returncode == 2
    assert answer.stderr.splitlines() == [
        "error: worker 3 died three times",
        "  mission 'arena', episode 4, agent 'red', step 17",
    ]


def test_a_bad_parameter_is_a_users_mistake(program: str) -> None:
    answer = run(program, "parameter")
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: ")
    assert "3 is not a plan" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_bug_keeps_its_traceback(program: str) -> None:
    answer = run(program, "bug")
    assert answer.returncode == 1
    assert answer.stderr.startswith("Traceback")
    assert answer.stderr.endswith("RuntimeError: a bug\n")


def test_commands_choose_their_own_exit_code(program: str) -> None:
    assert run(program, "leave").returncode == 7


def test_code_that_calls_sys_exit_is_a_users_mistake(program: str) -> None:
    """A module that is imported for an environment, say: its exit code is not that of the command."""
    answer = run(program, "exits")
    assert answer.returncode == 2
    assert answer.stderr.startswith(f"error: code that was loaded called sys.exit(), with 4 ({program}, line ")


def test_an_abort_is_told(program: str) -> None:
    answer = run(program, "abort")
    assert (answer.returncode, answer.stderr) == (1, "error: aborted\n")


def test_ctrl_c_ends_quietly(program: str) -> None:
    command = [sys.executable, program, "wait"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(), **pipes) as process:  # type: ignore[call-overload]
        until_readable(process, process.stdout)
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = until_over(process)
    assert (process.returncode, errors) == (130, "interrupted\n")


def test_an_environment_that_raises_keyboard_interrupt_by_itself_fails_as_in_a_worker(tmp_path: Path) -> None:
    """Only Ctrl-C ends the command; an error of that class is the episode's."""
    (tmp_path / "stop.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Stop(CartPoleEnv):\n    def step(self, action):\n        raise KeyboardInterrupt\n"
    )
    words = ("eval", "-m", f"{tmp_path / 'stop.py'}:Stop", "-p", "random", "-e", "2", "--no-save", "--json", "-j")
    here, there = (run(*PACELINE, *words, workers) for workers in ("0", "1"))
    assert (here.returncode, there.returncode) == (3, 3)
    assert json.loads(here.stdout)["digest"] == json.loads(there.stdout)["digest"]


INTERRUPTING = """
import os, signal, sys

name, _, number = os.environ["INTERRUPT_AT"].partition(" ")

class Finder:
    def find_spec(self, module, *_):
        if module == name:
            os.kill(os.getpid(), int(number))

if name == "startup" and "PACELINE_RESTARTED" in os.environ:
    os.kill(os.getpid(), int(number))
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("importlib.metadata", signal.SIGINT),  # as the package begins, in the first of two starts
        ("startup", signal.SIGINT),  # of Python, in the second
        ("startup", signal.SIGTERM),
        ("paceline.cli.listing", signal.SIGINT),  # when the app is put together
        ("paceline.cli._collecting", signal.SIGINT),  # in the command's body
        ("paceline.cli._collecting", signal.SIGTERM),
    ],
)
def test_a_signal_while_modules_are_imported_is_one_line(tmp_path: Path, where: str, number: signal.Signals) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING)
    env = environment(path=str(tmp_path), INTERRUPT_AT=f"{where} {int(number)}")
    answer = run(*PACELINE, "collect", "no_such_world", "--no-save", env=env)
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_when_the_exit_code_is_known_does_not_change_it(program: str) -> None:
    answer = run(program, "late")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "closed\n", "")


def test_a_terminal_that_lacks_a_sign_is_shown_its_number() -> None:
    command = [sys.executable, *PACELINE, "play", "sokoban"]
    ascii_only = environment(PYTHONIOENCODING="ascii")
    answer = subprocess.run(
        command, stdin=subprocess.DEVNULL, timeout=60, capture_output=True, text=True, env=ascii_only
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert r"\u221a: box on target" in answer.stdout


ROOMS = """
es_manager: {train: {env_groups: 1, group_size: 1, env_configs: {tags: [FrozenLake], n_groups: [1]}}}
custom_envs: {FrozenLake: {env_type: frozen_lake}}
"""


@pytest.mark.parametrize(
    ("command", "keeps"),
    [
        ("--help", False),
        ("missions --json", False),
        ("eval -m forage -p random -e 1 --steps 3 -j 0", True),
        ("collect CartPole-v1 --random -n 1 -j 0 --json", True),
        ("train treasure_hunt --epochs 1 --max-turns 2 -j 0", True),
        ("rollout rooms.yaml --policy random -j 0", True),
    ],
)
def test_a_standard_output_that_is_full_is_one_line_that_names_the_results(
    tmp_path: Path, command: str, keeps: bool
) -> None:
    (tmp_path / "rooms.yaml").write_text(ROOMS)
    words = [*command.split(), *(["--out", "mine"] if keeps else [])]
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, *PACELINE, *words],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            timeout=60,
        )
    said = answer.stderr.splitlines()
    assert (answer.returncode, said[-1].partition(";")[0]) == (
        1,
        "error: standard output cannot be written (No space left on device)",
    )
    assert [line for line in said[:-1] if line != "results: mine"] == []
    assert said[-1].endswith("mine") == keeps == (tmp_path / "mine" / "plan.json").exists()


def test_a_reader_that_leaves_is_not_told(tmp_path: Path) -> None:
    """`true` reads nothing: by the time that something is written, the pipe is closed."""
    line = f"{{ {sys.executable} -m paceline missions --json; echo $? > code; }} | true"
    answer = subprocess.run(["sh", "-c", line], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment())
    assert (answer.stderr, (tmp_path / "code").read_text()) == ("", "1\n")


def test_a_closed_stdout_is_no_error() -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, *PACELINE, "play", "sokoban"]
    answer = subprocess.run(
        command, stdin=subprocess.DEVNULL, timeout=60, capture_output=True, text=True, env=environment()
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_whoever_stops_reading_is_not_the_environments_fault() -> None:
    command = ["sh", "-c", 'yes up | "$@" | head -n 1', "sh", sys.executable]
    answer = subprocess.run(
        [*command, *PACELINE, "play", "sokoban"], timeout=60, capture_output=True, text=True, env=environment()
    )
    assert "sokoban raised" not in answer.stderr


def test_the_hash_seed_is_fixed_and_the_command_line_kept(program: str) -> None:
    answer = run("-W", "ignore", program, "seed", "two words")
    assert answer.stdout.splitlines() == ["0 0 ['ignore'] two words", "[]"]


def test_a_users_hash_seed_is_kept(program: str) -> None:
    answer = run(program, "seed", "x", env=environment(PYTHONHASHSEED="11"))
    assert answer.stdout.splitlines()[0] == "11 1 [] x"


def test_a_hash_seed_that_will_not_stay_is_tried_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os; os.environ.pop('PYTHONHASHSEED', None)")
    answer = run(*PACELINE, "--version", env=environment(path=str(tmp_path)))
    assert (answer.returncode, answer.stderr) == (0, "")


def test_no_command_needs_a_heavy_library_to_start() -> None:
    program = "import sys, paceline.cli.app; print([m for m in ('torch', 'ray', 'gymnasium') if m in sys.modules])"
    assert run("-c", program).stdout == "[]\n"
