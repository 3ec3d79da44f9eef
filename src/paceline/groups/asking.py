"""Asking a policy, whatever it is: a coroutine, a plain function, one that exits, one that never comes back."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.errors import BadInput, MemberExit
from paceline.types import Turn

_PATIENCE = 5.0  # seconds that a policy gets to notice that nobody wants its answer any more
_log = logging.getLogger("paceline")

T = TypeVar("T")


def asker(policy: Any) -> Callable[[Turn], Awaitable[Any]]:
    """Gives a coroutine that asks the policy.

    Raises:
        BadInput: it is no policy.
    """
    if inspect.isclass(policy):
        raise BadInput(f"the policy is the class {policy.__name__}; give one of its kind: {policy.__name__}(…)")
    answer = getattr(policy, "answer", policy)
    if not callable(answer):
        raise BadInput(f"the policy is a {type(policy).__name__}; it needs answer(turn), or must be such a function")

    async def ask(turn: Turn) -> Any:
        try:
            said = answer(turn) if inspect.iscoroutinefunction(answer) else await _in_a_thread(answer, turn)
            return await said if inspect.isawaitable(said) else said
        except SystemExit as error:
            raise MemberExit(f"the policy called sys.exit({error.code!r})") from None

    return ask


async def _in_a_thread(answer: Callable[[Turn], Any], turn: Turn) -> Any:
    """Runs a plain function in a thread of its own, which holds nobody up if it never comes back."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, problem = None, None  # type: Any, BaseException | None
        try:
            value = answer(turn)
        except (Exception, SystemExit) as error:
            # A future does not take StopIteration.
            problem = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
            loop.call_soon_threadsafe(settle, value, problem)

    threading.Thread(target=work, name="paceline-policy", daemon=True).start()
    return await future


def cancelled(error: BaseException) -> bool:
    """Whether we were cancelled; a policy may raise the same of its own."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def run_to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, but what is interrupted ends by itself first.

    While a pool is open Ctrl-C is raised in the middle of the loop. `asyncio.run` would then cancel everybody at once,
    and wait for those, too, who do not let themselves be cancelled.
    """
    with contextlib.closing(work), asyncio.Runner() as runner:  # closed: it may not even have begun
        with UNINTERRUPTED:  # half a loop would complain
            loop = runner.get_loop()
            task = loop.create_task(work)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            _hush([task])
            raise


async def cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    """Ends tasks, as far as they let themselves be ended, and leaves nothing of them for asyncio to print."""
    alive = asyncio.all_tasks().intersection(tasks)  # without those that have been left to themselves
    for task in alive:
        task.cancel()
    if alive:
        _, deaf = await asyncio.wait(alive, timeout=_PATIENCE)
        if deaf:
            _log.warning("%d policies do not let themselves be cancelled: they are left to themselves", len(deaf))
        for task in deaf:
            _leave(task)
    _hush(tasks)


def _hush(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Ctrl-C leaves the loop and stays in the task that it met, too: asyncio would print that one when it is freed."""
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()


def _leave(task: asyncio.Task[None]) -> None:
    """Nobody waits for it any more. `asyncio.run` would, for ever, and complain of it afterwards."""
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
