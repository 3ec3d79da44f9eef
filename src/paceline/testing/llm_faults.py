"""What goes wrong at the test server: latency, 429, 500, cut connections, broken JSON, each drawn by identity.

(server's seed, digest of the request, number of the attempt) ──► fault, latency
(server's seed, what is asked)                                ──► whether the answer never comes to its end

Nothing follows from when a request arrives or which other ones there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.errors import BadInput
from paceline.seeds import seed_of

KINDS = ("429", "500", "cut", "malformed")
"""The faults after which a request has to be sent again; `Faults` has a rate for each."""


@dataclass(frozen=True)
class Faults:
    """How often each thing goes wrong at an `LlmServer`; the defaults are a bad day.

    A rate is a probability per attempt. The same request meets no more than `worst` faults in all, so it is answered in
    the end by everybody who tries `worst` times again.

    Attributes:
        latency: The least and the most seconds before an answer; others do not wait for it.
        rate_429: Too many requests, with a Retry-After.
        retry_after: The seconds that it names; None: it names none.
        rate_500: The server says that it failed.
        rate_cut: The connection is closed in the middle of the answer.
        rate_malformed: The answer is no valid JSON.
        rate_long: The model talks until `max_tokens` and never comes to its answer. Unlike the others this is content:
            it is the same at each attempt.
        worst: How many faults a request meets at most.

    Raises:
        BadInput: a rate is no probability, or a time is negative.
    """

    latency: tuple[float, float] = (0.05, 0.2)
    rate_429: float = 0.1
    retry_after: float | None = 0.05
    rate_500: float = 0.05
    rate_cut: float = 0.02
    rate_malformed: float = 0.02
    rate_long: float = 0.0
    worst: int = 3

    def __post_init__(self) -> None:
        for name in (*(f"rate_{kind}" for kind in KINDS), "rate_long"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise BadInput(f"{name} is {getattr(self, name)}; give a probability from 0 to 1")
        if (total := sum(self._rates())) > 1.0 + 1e-9:
            raise BadInput(f"the rates of {', '.join(KINDS)} add up to {total:g}; give at most 1 in all")
        if not (len(self.latency) == 2 and 0.0 <= self.latency[0] <= self.latency[1] < math.inf):
            raise BadInput(f"latency is {self.latency}; give (least, most) in seconds")
        if self.retry_after is not None and not 0.0 <= self.retry_after < math.inf:
            raise BadInput(f"retry_after is {self.retry_after}; give seconds, or None")
        if self.worst < 0:
            raise BadInput(f"worst is {self.worst}; give how many faults a request may meet, 0 or more")

    def fault(self, seed: int, request: str, attempt: int, met: int) -> str | None:
        """The fault of an attempt at the request with this digest; None if it is answered.

        Args:
            seed: The server's.
            request: The digest.
            attempt: Its number, from 0.
            met: How many faults the attempts before it have met.
        """
        rates = self._rates()
        if met >= self.worst or not any(rates):
            return None
        share, edge = _share(seed, "fault", request, attempt), 0.0
        for kind, rate in zip(KINDS, rates, strict=True):
            edge += rate
            if share < edge:
                return kind
        return None

    def wait(self, seed: int, request: str, attempt: int) -> float:
        """The seconds that an attempt takes."""
        least, most = self.latency
        return least + (most - least) * _share(seed, "latency", request, attempt) if most else 0.0

    def rambles(self, seed: int, asked: str) -> bool:
        """Whether the answer to what is asked never comes to its end."""
        return self.rate_long > 0 and _share(seed, "long", asked) < self.rate_long

    def _rates(self) -> tuple[float, ...]:
        return self.rate_429, self.rate_500, self.rate_cut, self.rate_malformed


CALM = Faults(latency=(0.0, 0.0), rate_429=0.0, rate_500=0.0, rate_cut=0.0, rate_malformed=0.0)
"""Nothing goes wrong; `dataclasses.replace(CALM, rate_429=0.5)` is a start for one fault alone."""


def _share(seed: int, *key: int | str) -> float:
    return float(seed_of(seed, *key)) / float(1 << 63)
