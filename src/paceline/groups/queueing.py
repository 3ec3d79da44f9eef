"""Who is asked next: so many questions at once, and of those that wait, that of the trajectory which is furthest along.

    question ──► [place free?] ──► the policy ──► its place goes to the waiting question with the most turns

So trajectories are finished before others are begun, and whoever interrupts a run late finds most of it done. First
come, first served would bring all of them to their ends at the same time, the end.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush


class Turnstile:
    """So many places at once.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap

    async def enter(self, turns: int, env_id: int) -> None:
        """Waits for a place; most turns first, then by environment."""
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (-turns, env_id, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():  # it was given a place, and cancelled before it could take it
                self.leave()
            raise

    def leave(self) -> None:
        """Gives the place to whoever is next."""
        while self._waiting:
            *_, next_one = heappop(self._waiting)
            if not next_one.done():
                next_one.set_result(None)
                return
        self._free += 1
