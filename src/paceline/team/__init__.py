"""Team: the policies of one rollout, wherever they live.

    seats ── assign ──► Players ── minds ──► Pools, one per mode: here, threads, processes …
    observations ──► rows in shared memory, or messages ──► Mind.act ──► actions, in seat order

A `Player` is a policy as a job knows it, a `Mind` that policy at its seat or seats; `modes` says where minds can live.
"""

from paceline.team.modes import MODES, Mode
from paceline.team.players import Player, assign, counts, first_episodes, most_counts
from paceline.team.team import Mishap, Setting, Team

__all__ = ["MODES", "Mishap", "Mode", "Player", "Setting", "Team", "assign", "counts", "first_episodes", "most_counts"]
