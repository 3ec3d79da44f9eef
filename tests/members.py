"""Members that the engine's tests put into pools. Workers import this module by name."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import time
import types
from typing import Any

import numpy as np

from paceline import Anew, Pool


class Walker:
    """A stateful member with a generator of its own: everything it says depends on everything it was asked."""

    def __init__(self, start: int = 0) -> None:
        self.rng = np.random.default_rng(start)
        self.position = np.full(4, float(start))

    def step(self, move: float) -> tuple[np.ndarray, float]:
        self.position += move * self.rng.normal(size=4)
        return self.position, float(self.position.sum())  # the very array it goes on changing

    def reset(self, seed: int) -> Anew:
        self.rng = np.random.default_rng(seed)
        self.position = np.zeros(4)
        return Anew(self.position.copy())

    def where(self) -> np.ndarray:
        return self.position

    def step_row(self, move: np.ndarray, place: np.ndarray, total: np.ndarray) -> None:
        place[...], total[...] = self.step(float(move))


class SnapshotWalker(Walker):
    """The same, able to be saved."""

    def snapshot(self) -> dict[str, Any]:
        return {"rng": self.rng.bit_generator.state, "position": self.position.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state["rng"]
        self.position = state["position"]


class Ledger:
    """Everything that it is asked changes what it says next; the order does too."""

    def __init__(self, start: float = 1.0) -> None:
        self.value = start

    def add_row(self, a: np.ndarray, o: np.ndarray) -> None:
        self.value += float(a)
        o[...] = self.value

    def double_row(self, a: np.ndarray, o: np.ndarray) -> None:
        self.value = 2 * self.value + float(a)
        o[...] = self.value

    def times_later(self, factor: float, seconds: float) -> float:
        time.sleep(seconds)
        return self.times(factor)

    def times(self, factor: float) -> float:
        self.value *= factor
        return self.value

    def get(self) -> float:
        return self.value


class Saved(Ledger):
    def snapshot(self) -> float:
        return self.value

    def restore(self, value: float) -> None:
        self.value = value


class Mortal(Ledger):
    """Kills its worker the first time that it is told to, and not again."""

    def times_after_death(self, factor: float, mark: str) -> float:
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.times(factor)


class Stubborn(Ledger):
    """Never comes back from its farewell."""

    def close(self) -> None:
        time.sleep(1000)


class Unsaveable(Ledger):
    """Hangs, or raises, when it is asked for a snapshot."""

    def __init__(self, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs

    def snapshot(self) -> float:
        if self.hangs:
            time.sleep(1000)
        raise ValueError("not now")

    def restore(self, value: float) -> None:
        self.value = value


class Knocking(Ledger):
    """Sends Ctrl-C to main, once, while it is built for the second time or while it closes."""

    def __init__(self, main: int, when: str, mark: str) -> None:
        super().__init__()
        self.main, self.when, self.mark = main, when, mark
        if when == "build" and os.path.exists(mark):
            self.knock()
        open(mark, "w").close()

    def close(self) -> None:
        if self.when == "close":
            self.knock()

    def knock(self) -> None:
        if os.path.exists(self.mark + ".knocked"):
            return
        open(self.mark + ".knocked", "w").close()
        os.kill(self.main, signal.SIGINT)
        time.sleep(0.2)


class Episode(Saved):
    def reset(self, start: float) -> Anew:
        self.value = start
        return Anew(start)


class GlobalDrawer:
    """Draws from every process-wide generator it can find, from its constructor on."""

    def __init__(self, use_torch: bool = False) -> None:
        self.use_torch = use_torch
        self.first = self.draw()

    def draw(self) -> list[float]:
        values = [random.random(), random.gauss(0, 1), float(np.random.rand()), float(np.random.randn())]
        if self.use_torch:
            import torch

            values += [float(torch.rand(())), float(torch.randn(()))]
        return values

    def step(self, move: float) -> tuple[list[float], list[float]]:
        return self.first, [move * value for value in self.draw()]


class LateDrawer:
    """Clean for its first calls, then draws from a process-wide generator after all."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.calls = 0

    def step(self, move: float) -> float:
        self.calls += 1
        return move if self.calls <= self.after else move + random.random() + float(np.random.randn())

    def step_row(self, move: np.ndarray, total: np.ndarray) -> None:
        total[...] = self.step(float(move))


class Oracle:
    """Answers differently each time, as a language model does, and says how often it was asked."""

    def __init__(self) -> None:
        self.history: list[str] = []

    def ask(self, question: str) -> str:
        answer = f"{question}:{os.urandom(8).hex()}"
        self.history.append(answer)
        return answer

    def recall(self, method: str, args: tuple[Any, ...], answer: str) -> None:
        self.history.append(answer)

    def told(self) -> list[str]:
        return self.history


class Clock:
    """Not a function of its calls."""

    def step(self, move: float) -> float:
        return time.perf_counter() + move


class TwoArguments(Exception):
    """An exception that cannot be unpickled the usual way."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} #{number}")
        self.number = number


class Fault:
    """Does what it is told, however bad."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def add(self, amount: int) -> int:
        self.value += amount
        return self.value

    def do(self, what: str) -> Any:
        return getattr(self, what)()

    def fine(self) -> str:
        return "fine"

    def sigkill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def exit(self) -> None:
        os._exit(7)

    def segfault(self) -> None:
        ctypes.string_at(0)

    def abort(self) -> None:
        os.abort()

    def sys_exit(self) -> None:
        sys.exit(3)

    def spin(self) -> None:
        while True:
            pass

    def spin_in_c(self) -> None:
        # Holds the GIL for good: nothing inside the process can end this.
        ctypes.PyDLL(None).sleep(10_000)

    def sleep(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        while True:
            time.sleep(60)

    def two_arguments(self) -> None:
        raise TwoArguments("broken", 42)

    def unpicklable_error(self) -> None:
        raise ValueError("holds a lock", __import__("threading").Lock())

    def unpicklable(self) -> Any:
        return __import__("threading").Lock()

    def megabytes(self, count: int) -> np.ndarray:
        return np.full(count << 17, 1.5)

    def pid(self) -> int:
        return os.getpid()

    def fault_row(self, order: np.ndarray, out: np.ndarray) -> None:
        if int(order) == 1:
            self.sigkill()
        if int(order) == 2:
            raise TwoArguments("row", int(order))
        if int(order) == 3:
            self.spin()
        self.value += 1
        out[...] = self.value


def raising() -> Any:
    """A factory that fails."""
    raise TwoArguments("constructor", 1)


def dying() -> Any:
    """A factory that kills its worker."""
    os._exit(9)


class BadStr(Exception):
    """An error that cannot be put into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no name")


class Talker:
    """Says things, with and without an end."""

    def say(self, count: int) -> int:
        for _ in range(count):
            print("x" * 100)
        return count

    def bars(self, count: int) -> None:
        for number in range(count):
            sys.stderr.write(f"\r{number:>80}")
        print(" done")

    def halves(self) -> None:
        for word in ("one", "two", "three"):
            print(word, end=" ", flush=True)
        print("four")

    def warn(self) -> None:
        """As a library does that is no Python, and knows nothing of `sys.stderr`."""
        os.write(2, b"WARNING: old\n\n")
        print("as often as it is said")

    def last_words(self) -> None:
        print("farewell", end="", flush=True)
        os._exit(1)


class Odd:
    """Answers and raises what nobody would think of."""

    def wordless(self) -> None:
        raise BadStr("x")

    def nameless(self) -> Any:
        return {BadRepr(): __import__("threading").Lock()}

    def noted(self) -> None:
        error = ValueError("v")
        error.__notes__ = "abc"  # type: ignore[assignment]
        raise error

    def unknown_class(self) -> None:
        module = types.ModuleType("only_there")
        exec("class Strange(Exception): pass", module.__dict__)
        sys.modules["only_there"] = module
        raise module.Strange("boo")


class Dictionary:
    """Has every attribute that it holds, and raises KeyError for the others."""

    def __init__(self) -> None:
        self.__dict__["held"] = {}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["held"][name]

    def add(self) -> int:
        return 1


class DeadlyToBind:
    """Kills its worker when its method is looked up."""

    @property
    def step_row(self) -> Any:
        os._exit(5)

    def fine(self) -> str:
        return "fine"


class LateSaved:
    """Draws when it is told to, and can be saved."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, late: bool) -> float:
        self.steps += 1
        return self.steps + (random.random() if late else 0.0)

    def snapshot(self) -> int:
        return self.steps

    def restore(self, steps: int) -> None:
        self.steps = steps


class Interrupted:
    """Draws from a process-wide generator for the first time when Ctrl-C comes, once."""

    knocked = False

    def step(self, late: bool, mark: str) -> float:
        if not late:
            return 1.0
        value = random.random()
        if not os.path.exists(mark):
            open(mark, "w").close()
            signal.raise_signal(signal.SIGINT)
        return value

    def step_row(self, late: np.ndarray, out: np.ndarray) -> None:
        out[...] = random.random() if late else 1.0
        if int(late) == 2 and not Interrupted.knocked:
            Interrupted.knocked = True
            signal.raise_signal(signal.SIGINT)


class DrawingInside:
    """Has a pool of its own, on threads, and members there that draw."""

    def __init__(self) -> None:
        self.steps = 0

    def nest(self) -> float:
        self.steps += 1
        with Pool([LateSaved], backend="thread") as pool:
            return pool.call("step", {0: (True,)})[0]

    def step(self) -> int:
        self.steps += 1
        return self.steps


class DrawingRestored(LateSaved):
    """Draws when it is restored."""

    def restore(self, steps: int) -> None:
        random.random()
        super().restore(steps)

    def draw(self) -> float:
        return random.random()


class SlowRows(Ledger):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def add_row(self, a: np.ndarray, o: np.ndarray) -> None:
        time.sleep(self.seconds)
        super().add_row(a, o)
