"""How a callable that is given for a policy is understood: as the policy itself, or as what makes policies.

    a class                            makes policies
    an object with act or act_batch    is a policy
    any other callable                 is tried out: with a seat, then with an observation; see `understood`

A job understands its players once, before it plays, and says the outcome in `Player.acts`. Names of parameters do not
matter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from paceline.errors import BadInput, place
from paceline.spaces import checked
from paceline.team.copies import own
from paceline.team.minds import Builder
from paceline.team.players import Player, is_policy, plainly_acts
from paceline.types import Acted, Seat

Observe = Callable[[Seat], tuple[Seat, Any]]
"""Gives a first observation, preferably of this seat, and the seat that sees it."""


def understood(player: Player, seat: Seat, observe: Observe) -> Player:
    """The player with `acts` said; a policy is built for the seat, looked at, and closed.

    Args:
        player: What is given.
        seat: One of its seats.
        observe: Asked only if the callable makes no policy of a seat.

    Raises:
        BadInput: it does neither, or what it makes is no policy.
        Exception: it says that it makes policies, and raises this.
    """
    what = f"policy {player.name!r} for seat {seat.agent!r} of mission {seat.mission!r}"
    acts = plainly_acts(player)
    if acts is not None:
        player = replace(player, acts=acts)
        builder = Builder(player)
        _check(policy := builder.build(seat), player, what)
        builder.close([policy], sound=True)
        return player
    made = _tried(partial(_made, replace(player, acts=False), seat, what))
    if made is None:
        return replace(player, acts=False)
    try:
        seer, observation = observe(seat)
    except Exception:  # the environment's own failure, which its episodes will tell
        return replace(player, acts=True)
    answered = _tried(partial(_answers, player, seer, observation))
    if answered is None:
        return replace(player, acts=True)
    name = f"Player({player.name!r}, …"
    raise BadInput(
        f"{what} neither makes a policy nor is one. Asked to make a policy it {made}; asked to answer an observation "
        f"it {answered}. To be explicit: {name}, acts=False) if it makes policies, {name}, acts=True) if it answers "
        "observations (from paceline.team import Player)"
    )


def _tried(call: Callable[[], str | None]) -> str | None:
    """What is wrong with a call, in words; None: nothing."""
    try:
        return call()
    except BadInput:
        raise
    except Exception as error:
        return f"raises {type(error).__name__}: {error}{place(error)}"


def _made(player: Player, seat: Seat, what: str) -> str | None:
    builder = Builder(player)
    policy = builder.build(seat)
    if not is_policy(policy):
        return f"gives {_shown(policy)} (it has no act(obs), no act_batch(…) and cannot be called)"
    _check(policy, player, what)
    builder.close([policy], sound=True)
    return None


def _answers(player: Player, seat: Seat, observation: Any) -> str | None:
    answer = own(player.factory)(observation)
    action, space = answer.action if isinstance(answer, Acted) else answer, seat.action_space
    try:
        checked(action, space, "it")
    except BadInput:
        fits = False
    else:
        fits = action is not None
    return None if fits else f"gives {_shown(action)}, which is no action of {space}"


def _check(policy: Any, player: Player, what: str) -> None:
    """Raises `BadInput` for what cannot play, with what to give instead."""
    if hasattr(policy, "act_batch") and not hasattr(policy, "act") and player.declares("act_batch") is None:
        raise BadInput(
            f"{what} has act_batch(…) and no act(obs), but its factory does not say so before it is called: give the "
            f"class {type(policy).__name__} itself, or set act_batch = True on the factory"
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(policy, torch.nn.Module) and not hasattr(policy, "act"):
        raise BadInput(
            f"{what} is a torch module, but its factory does not say so before it is called: give the module itself, "
            f"or its class {type(policy).__name__}"
        )
    if not is_policy(policy):
        raise BadInput(f"{what} is a {type(policy).__name__}: it has no act(obs), no act_batch(…) and cannot be called")


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
