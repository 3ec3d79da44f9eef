"""A pool answers one thread at a time: a second one that asks while the first is within is refused at once.

`Crew.inside` is the thread that is within. It is set where a call begins and set back where that ends: here for what
takes long anyway, and written out where each call counts (`Pool.call`, `Hearing.pump`, a straight round). Nothing is
called between the look at it and the change, so that no other thread gets its turn there. Between calls any thread may
go on with a pool.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from paceline.errors import BadInput

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def in_use() -> BadInput:
    """What a thread is told while another is within."""
    return BadInput(
        "another thread is in the middle of a call to this pool, which answers one thread at a time: give each thread "
        "a pool of its own, or hand this one over when the other thread has its answers"
    )


def one_thread(method: Callable[Concatenate[Any, Given], Answer]) -> Callable[Concatenate[Any, Given], Answer]:
    """A method of something with a `_crew`, in which no other thread may use that crew.

    Raises:
        BadInput: another thread is within.
    """

    def alone(self: Any, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        crew = self._crew
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me
        try:
            return method(self, *args, **kwargs)
        finally:
            crew.inside = outer

    update_wrapper(alone, method)
    return alone
