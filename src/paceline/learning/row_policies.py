"""Row policies with networks: Markov, Memory and Memory-Markov.

    observations, a row each ──► staged, zeros where no row is asked ──► one forward of all rows ──► parameters
    noise, from the row's own generator ──────────────────────────────────────────────────────► actions, log_prob, value

Every forward has all rows, so the bits of a row depend on its number and on how many rows there are, and on no other
row. What a row remembers is kept from `begin` to `begin`, over all episodes that are played in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from paceline.errors import BadInput
from paceline.learning.encoding import Observations
from paceline.spaces import Array
from paceline.types import Acted, Seat

_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile)  # what NumPy raises on a bad file


class Markov:
    """An actor that sees the observation only, and a critic beside it, if wanted.

    With each action it says `log_prob`; with a critic `value`; and, where actions are a Box, `raw_action`, from which
    the log-probability under other weights can be found.

    Args:
        seat: One of the seats that it plays; all see and act alike.
        weights: As `weights()` gives them, or an .npz file with them; None: they follow from `seed`.
        hidden: The sizes of the layers of actor and critic.
        critic: Whether there is a critic.
        squash: What keeps the amounts of a Box within its bounds: "tanh" or "clip".
        log_std: Where the learned noise of a Box begins: the logarithm of its spread, in half widths of the Box.
        sampled: Whether actions are drawn; otherwise they are the likeliest.
        seed: What the first weights follow from.

    Raises:
        BadInput: torch is not installed, the spaces do not suit, or the weights do not fit.
    """

    def __init__(
        self,
        seat: Seat,
        weights: Mapping[str, Array] | str | Path | None = None,
        *,
        hidden: Sequence[int] = (64, 64),
        critic: bool = True,
        squash: str = "tanh",
        log_std: float = -0.5,
        sampled: bool = True,
        seed: int = 0,
    ) -> None:
        keywords = {"hidden": hidden, "critic": critic, "log_std": log_std, "seed": seed}
        self._build(seat, weights, squash, sampled, keywords)

    def _build(self, seat: Seat, weights: Any, squash: str, sampled: bool, keywords: dict[str, Any]) -> None:
        self._torch = import_torch()
        from paceline.learning.heads import head_for
        from paceline.learning.networks import built

        self.head, self.observations = head_for(seat.action_space, squash), Observations(seat.observation_space)
        """How actions and observations are encoded."""
        self.sampled = sampled
        """Whether actions are drawn; otherwise they are the likeliest."""
        head, self._device = self.head, seat.device
        self._who = f"{type(self).__name__} at seat {seat.agent!r} of mission {seat.mission!r}"
        if weights is not None:
            keywords = {**keywords, "seed": None}
        self.network = built(self.observations.size, head.encoded, head.size, head.spread, **keywords)
        """The actor and the critic: a `torch.nn.Module`."""
        self.version = 0
        """Of the weights, as `load` was told."""
        if weights is not None:
            self.load(0, _read(weights) if isinstance(weights, str | Path) else weights)
        self.network.to(self._device)
        self._lanes = 0  # rows of a forward; 0: none has been asked yet
        self._rngs: list[np.random.Generator | None] = []
        self._seen, self._acted, self._rewards, self._state = self._blank(0)

    # -- weights -----------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        """The weights by name: copies."""
        from paceline.learning.networks import weights_of

        return weights_of(self.network)

    def load(self, version: int, weights: Mapping[str, Array]) -> None:
        """Takes another version of the weights. What rows remember stays.

        Raises:
            BadInput: they are not those of such a network; it keeps what it has.
        """
        from paceline.learning.networks import load_weights

        load_weights(self.network, weights, self._who)
        self.version = version

    # -- rows --------------------------------------------------------------------------------------------------

    def begin(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begins in some rows: each forgets everything, and draws its noise from a generator with this seed."""
        self._make_room(max(rows, default=-1) + 1)
        for row, seed in zip(rows, seeds, strict=True):
            self._rngs[row] = np.random.default_rng(seed)
        self._clear(list(rows))

    def _blank(self, rows: int) -> tuple[Any, Any, Any, Any]:
        """What the network is given: observations, last actions, rewards [1, rows, …] and states, all zeros.

        Torch's own memory, written as arrays: it is aligned, which NumPy's need not be, and bits may depend on that.
        """
        seen = self._torch.zeros(1, rows, self.observations.size)
        acted = self._torch.zeros(1, rows, self.head.encoded)
        return seen, acted, self._torch.zeros(1, rows), self.network.start(rows)

    def _make_room(self, rows: int) -> None:
        """Has at least as many rows; what is in those that there are stays."""
        before = len(self._rngs)
        if rows <= before:
            return
        kept = (self._seen, self._acted, self._rewards, self._state)
        self._rngs += [None] * (rows - before)
        self._seen, self._acted, self._rewards, self._state = self._blank(rows)
        for old, new in zip(kept, (self._seen, self._acted, self._rewards, self._state), strict=True):
            new[:, :before] = old

    def _clear(self, rows: list[int]) -> None:
        for tensor in (self._acted, self._rewards, self._state):
            tensor.numpy()[:, rows] = 0

    def take_rows(self, rows: Sequence[int]) -> dict[str, Any]:
        """What is kept in some rows, weights excepted.

        Returns:
            `state` [rows, parts, size], the memory before the next observation; `actions` [rows, encoded] and `rewards`
            [rows], what it will be told of the last action; `generators`, a state each.
        """
        chosen = list(rows)
        return {
            "state": self._state.numpy()[:, chosen].swapaxes(0, 1).copy(),
            "actions": self._acted.numpy()[0, chosen],
            "rewards": self._rewards.numpy()[0, chosen],
            "generators": [self._rng(row).bit_generator.state for row in chosen],
        }

    def put_rows(self, rows: Sequence[int], state: Mapping[str, Any]) -> None:
        """Goes on in some rows from what `take_rows` gave, of these rows or of as many others."""
        chosen = list(rows)
        self.begin(chosen, [0] * len(chosen))
        self._state.numpy()[:, chosen] = np.swapaxes(state["state"], 0, 1)
        self._acted.numpy()[0, chosen] = state["actions"]
        self._rewards.numpy()[0, chosen] = state["rewards"]
        for row, generator in zip(chosen, state["generators"], strict=True):
            self._rng(row).bit_generator.state = generator

    def _rng(self, row: int) -> np.random.Generator:
        rng = self._rngs[row] if row < len(self._rngs) else None
        if rng is None:
            raise BadInput(f"{self._who}: row {row} has not begun: call begin(rows, seeds) before")
        return rng

    # -- answers -----------------------------------------------------------------------------------------------

    def act_batch(self, obs: Sequence[Any], seats: Sequence[Any], mask: Array, rngs: Sequence[Any]) -> Acted:
        """Answers the rows that are asked, in one forward of all rows.

        Args:
            obs: An observation per row; those of rows that are not asked are not looked at.
            seats: Who sits in each row; it makes no difference here.
            mask: Which rows are asked.
            rngs: A generator per row; not used, as each row has its own since `begin`.

        Raises:
            BadInput: a row has not begun, or there are more or fewer rows than before.
        """
        asked = np.flatnonzero(mask).tolist()
        noise = self._stage(obs, asked)
        torch, network, device = self._torch, self.network, self._device
        with torch.inference_mode():
            inputs = (self._seen, self._acted, self._rewards, self._state)
            answer = network(*(tensor.to(device) for tensor in inputs))
            spread = network.spread.to(device)
            raw = self.head.raw(answer.parameters, spread, torch.from_numpy(noise)[None].to(device), self.sampled)
            extras = {"log_prob": self.head.log_prob(answer.parameters, spread, raw)[0].cpu().numpy()}
        if answer.values is not None:
            extras["value"] = answer.values[0].cpu().numpy()
        if self.head.spread:
            extras["raw_action"] = raw[0].cpu().numpy()
        actions = self.head.actions(raw[0].cpu().numpy())
        self._remember(asked, actions, answer.state)
        return Acted(actions, extras)

    def _stage(self, obs: Sequence[Any], asked: list[int]) -> Array:
        """Writes what is seen into its rows, and zeros into those that are not asked. Returns the noise."""
        if self._lanes not in (0, len(obs)):
            raise BadInput(
                f"{self._who} was asked {len(obs)} rows, and {self._lanes} before: bits depend on their number, "
                "so it is the same for the whole life of a policy"
            )
        self._make_room(len(obs))
        if len(self._rngs) > len(obs):
            raise BadInput(f"{self._who} was asked {len(obs)} rows, and row {len(self._rngs) - 1} has begun")
        seen, noise = self._seen.numpy()[0], self.head.noises(len(obs))
        seen[:] = 0
        for row in asked:
            self.observations.write(seen[row], obs[row])
            rng = self._rng(row)
            if self.sampled:
                noise[row] = self.head.noise(rng)
        self._lanes = len(obs)
        return noise

    def _remember(self, asked: list[int], actions: Any, state: Any) -> None:
        """Keeps what the next answer depends on; Markov keeps nothing."""


class _Remembers(Markov):
    """What policies with a memory share."""

    def _remember(self, asked: list[int], actions: Any, state: Any) -> None:
        self._state.numpy()[:, asked] = state.cpu().numpy()[:, asked]
        self._acted.numpy()[0, asked] = self.head.encode(actions)[asked]
        self._rewards.numpy()[0, asked] = 0  # until it is told

    def tell_rows(self, rows: Sequence[int], rewards: Array, terminated: Array, truncated: Array) -> None:
        """Takes what came of the last actions in these rows. An end clears nothing: only `begin` does."""
        self._rewards.numpy()[0, list(rows)] += rewards  # a row that is not due at every step gets the sum


class Memory(_Remembers):
    """Actor and critic share a memory of observations, last actions and rewards, and see the observation beside it.

    What it remembers lasts over all episodes that are played between two calls of `begin`: those of one task.

    Args:
        seat: One of the seats that it plays; all see and act alike.
        weights: As `weights()` gives them, or an .npz file with them; None: they follow from `seed`.
        cell: "gru" or "lstm".
        memory: The size of the memory.
        layers: Its layers.
        hidden: The sizes of the layers of actor and critic.
        critic: Whether there is a critic.
        squash: What keeps the amounts of a Box within its bounds: "tanh" or "clip".
        log_std: Where the learned noise of a Box begins: the logarithm of its spread, in half widths of the Box.
        sampled: Whether actions are drawn; otherwise they are the likeliest.
        seed: What the first weights follow from.

    Raises:
        BadInput: torch is not installed, the spaces do not suit, or the weights do not fit.
    """

    def __init__(
        self,
        seat: Seat,
        weights: Mapping[str, Array] | str | Path | None = None,
        *,
        cell: str = "gru",
        memory: int = 64,
        layers: int = 1,
        hidden: Sequence[int] = (64, 64),
        critic: bool = True,
        squash: str = "tanh",
        log_std: float = -0.5,
        sampled: bool = True,
        seed: int = 0,
    ) -> None:
        keywords = {"hidden": hidden, "critic": critic, "log_std": log_std, "seed": seed}
        keywords |= {"cell": cell, "memory": memory, "layers": layers}
        keywords |= {"actor_remembers": True, "critic_remembers": critic}
        self._build(seat, weights, squash, sampled, keywords)


class MemoryMarkov(_Remembers):
    """An actor that sees the observation only, and a critic with a memory, as `Memory` has it.

    Args:
        seat: One of the seats that it plays; all see and act alike.
        weights: As `weights()` gives them, or an .npz file with them; None: they follow from `seed`.
        cell: "gru" or "lstm".
        memory: The size of the critic's memory.
        layers: Its layers.
        hidden: The sizes of the layers of actor and critic.
        squash: What keeps the amounts of a Box within its bounds: "tanh" or "clip".
        log_std: Where the learned noise of a Box begins: the logarithm of its spread, in half widths of the Box.
        sampled: Whether actions are drawn; otherwise they are the likeliest.
        seed: What the first weights follow from.

    Raises:
        BadInput: torch is not installed, the spaces do not suit, or the weights do not fit.
    """

    def __init__(
        self,
        seat: Seat,
        weights: Mapping[str, Array] | str | Path | None = None,
        *,
        cell: str = "gru",
        memory: int = 64,
        layers: int = 1,
        hidden: Sequence[int] = (64, 64),
        squash: str = "tanh",
        log_std: float = -0.5,
        sampled: bool = True,
        seed: int = 0,
    ) -> None:
        keywords = {"hidden": hidden, "log_std": log_std, "seed": seed, "critic_remembers": True}
        keywords |= {"cell": cell, "memory": memory, "layers": layers}
        self._build(seat, weights, squash, sampled, keywords)


def import_torch() -> Any:
    """Gives torch.

    Raises:
        BadInput: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise BadInput("policies and learners with networks need PyTorch: pip install 'paceline[train]'") from error
    return torch


def _read(path: str | Path) -> dict[str, Array]:
    try:
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except _UNREADABLE as error:
        raise BadInput(
            f"cannot read weights from {path}: {error}; give an .npz file, as numpy.savez writes it"
        ) from error
