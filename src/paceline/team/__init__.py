"""Team: the policies of one rollout, wherever they live.

    seats ── assign ──► Players ── minds ──► Pools, one per mode: here, threads, processes …
    observations ──► rows in shared memory, or messages ──► Mind.act ──► actions, in seat order

A `Player` is a policy as a job knows it, a `Mind` that policy at its seat or seats; `modes` says where minds can live,
`sharing` which policies live together.
"""

from paceline.team.batches import Batch
from paceline.team.blackbox import closing_mark, last_words
from paceline.team.callables import understood
from paceline.team.chairs import Chair
from paceline.team.local import LocalTeam
from paceline.team.minds import Builder, cannot_be_copied
from paceline.team.modes import MODES, Mode
from paceline.team.players import (
    Player,
    assign,
    counts,
    first_episodes,
    is_policy,
    most_counts,
    plainly_acts,
    with_parts,
)
from paceline.team.team import Mishap, Setting, Team

__all__ = [
    "MODES",
    "Batch",
    "Builder",
    "Chair",
    "LocalTeam",
    "Mishap",
    "Mode",
    "Player",
    "Setting",
    "Team",
    "assign",
    "cannot_be_copied",
    "closing_mark",
    "counts",
    "first_episodes",
    "is_policy",
    "last_words",
    "most_counts",
    "plainly_acts",
    "understood",
    "with_parts",
]
