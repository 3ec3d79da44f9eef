"""Torchnet: a small network that answers all seats in one forward pass; its weights are shipped, torch is not.

    windows, one per row ──► float ──► linear · relu · linear · relu · linear ──► a draw per row, from the row's own
                                                                                  generator

The networks were trained to act like greedy, by `examples/clone_greedy.py`; they see a window and remember nothing.
Torch is imported when the policy is built, and not before.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from paceline.errors import BadInput
from paceline.policies.mind import CLEANUP, COURIER, FORAGE, TREASURE_HUNT
from paceline.types import Seat

WEIGHTS = Path(__file__).parent / "weights"
_SHIPPED = {
    FORAGE: "forage.npz",
    CLEANUP: "cleanup.npz",
    COURIER: "courier.npz",
    TREASURE_HUNT: "treasure_hunt.npz",
}

_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile)  # what NumPy raises on a bad file

Array = np.ndarray[Any, Any]


class TorchNet:
    """A policy for all seats at once, whose actions are drawn as the network deems them likely.

    The shipped weights play the built-in worlds. Weights of your own play any world whose observations are arrays and
    whose actions are numbered.

    Args:
        seat: One of the seats that it plays; all see and act alike.
        weights: An .npz file with `weight0`, `bias0`, `weight1` …, one pair per layer; by default the shipped one.
        sharpness: Likelihoods are raised to this power; None: always the likeliest action.

    Raises:
        BadInput: torch is not installed, there are no weights for this world, or they do not fit it.
    """

    reuse = True  # an episode leaves nothing behind but the generator, which `reset` seeds

    def __init__(self, seat: Seat, weights: str | Path | None = None, sharpness: float | None = 1.5) -> None:
        self._torch = _import_torch()
        self._sharpness = sharpness
        path = _shipped(seat) if weights is None else Path(weights)
        layers = _load(path)
        _check_fit(path, layers, seat)
        self._layers = [tuple(self._torch.from_numpy(array) for array in layer) for layer in layers]
        self.to(seat.device)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Begins an episode; the seed is for those who call `act`, which has no generator of its own."""
        self._rng = np.random.default_rng(seed)

    def begin(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Begins episodes in some rows. Nothing is kept in rows: each is given its generator with every question."""

    def to(self, device: str) -> TorchNet:
        """Moves the network to a device."""
        self._device = device
        self._layers = [tuple(tensor.to(device) for tensor in layer) for layer in self._layers]
        return self

    def act(self, obs: Any) -> int:
        """Answers one observation: a batch of one row."""
        action: int = self.act_batch([obs])[0]
        return action

    def act_batch(
        self,
        obs: Sequence[Any],
        seats: Sequence[Seat | None] | None = None,
        mask: Array | None = None,
        rngs: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Answers the rows that are asked; a row of padding gets None, and none of its draws is used up.

        Args:
            obs: An observation per row; all of them go through the network, so that a row's bits stay the same.
            seats: Who sits in each row; it makes no difference here.
            mask: Which rows are asked; by default all.
            rngs: A generator per row; by default the policy's own serves all.
        """
        scores = self._forward(np.stack([np.asarray(each) for each in obs]))
        asked = np.ones(len(obs), bool) if mask is None else mask
        return [
            self._draw(scores[row], self._rng if rngs is None else rngs[row]) if asked[row] else None
            for row in range(len(obs))
        ]

    def snapshot(self) -> Any:
        """The generator as it stands; the weights never change."""
        return copy.deepcopy(self._rng)

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._rng = copy.deepcopy(state)

    def _forward(self, windows: Array) -> Array:
        torch = self._torch
        with torch.inference_mode():
            flow = torch.from_numpy(windows.reshape(len(windows), -1)).to(self._device, torch.float32)
            for number, (weight, bias) in enumerate(self._layers):
                flow = torch.nn.functional.linear(torch.relu(flow) if number else flow, weight, bias)
            scores: Array = flow.cpu().numpy()
        return scores

    def _draw(self, scores: Array, rng: np.random.Generator) -> int:
        if self._sharpness is None:
            return int(scores.argmax())
        likely = np.exp(self._sharpness * (scores - scores.max()).astype(np.float64)).cumsum()
        return int(np.searchsorted(likely, rng.random() * likely[-1], side="right"))


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BadInput("the policy 'torch' needs PyTorch: pip install 'paceline[train]'") from error
    return torch


def _shipped(seat: Seat) -> Path:
    name = _SHIPPED.get(frozenset(getattr(seat.observation_space, "planes", ())))
    if name is None:
        raise BadInput(
            f"the policy 'torch' has no weights for the world of mission {seat.mission!r} (seat {seat.agent!r} sees "
            f"{seat.observation_space}); give weights=FILE.npz of your own, or use 'random'"
        )
    return WEIGHTS / name


def _load(path: Path) -> list[tuple[Array, Array]]:
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            pairs = [(file[f"weight{number}"], file[f"bias{number}"]) for number in range(len(file.files) // 2)]
    except _UNREADABLE as error:
        raise BadInput(f"cannot read weights from {path}: {error}; give an .npz file with weight0, bias0 …") from error
    return [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in pairs]


def _check_fit(path: Path, layers: list[tuple[Array, Array]], seat: Seat) -> None:
    shape, count = getattr(seat.observation_space, "shape", None), getattr(seat.action_space, "n", None)
    has = (layers[0][0].shape[1], layers[-1][0].shape[0]) if layers else (0, 0)
    needs = (None if shape is None else int(np.prod(shape)), count)
    if has != needs:
        raise BadInput(
            f"the weights in {path} are for {has[0]} inputs and {has[1]} actions, but seat {seat.agent!r} of mission "
            f"{seat.mission!r} has {needs[0]} and {needs[1]}; give weights that were trained on it"
        )
