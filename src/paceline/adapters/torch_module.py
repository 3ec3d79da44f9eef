"""A torch module as a policy: observations in, scores of actions (or the actions themselves) out, in fixed batches.

    observations ──► staging, pinned for a GPU ──► device ──► module ──► scores ──► one action per row

Everything that a row needs is allocated once, for `lanes` rows: memory does not grow with the number of agents.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.team.device import find_device, import_torch
from paceline.types import Seat

Array = np.ndarray[Any, Any]

_WORDS_OF_TORCH = 1500  # characters of its complaint: a network may have many layers


class Module:
    """Plays all seats of a mission with one torch module.

    For numbered actions the module gives a score for each, and the highest wins, or with `sampled` one is drawn by the
    row's own generator. For a Box it gives the action.

    Args:
        seat: One of the seats; all see and act alike.
        make: Builds the module: a class or a function; it is given `seat` if it takes one, and the other keywords.
        weights: A .safetensors file, or one of `torch.save` with tensors only.
        trust: Whether a file with more than tensors in it may be loaded: its pickles can run anything.
        sampled: Whether numbered actions are drawn by their scores, taken as logits.
        keywords: For `make`.

    Raises:
        BadInput: torch is missing, the weights cannot be read or do not fit, or the device is not there.
    """

    def __init__(
        self,
        seat: Seat,
        make: Callable[..., Any],
        weights: str | None = None,
        trust: bool = False,
        sampled: bool = False,
        **keywords: Any,
    ) -> None:
        self._torch = import_torch()
        self._space, self._sampled = seat.action_space, sampled
        self._device = find_device(seat.device)
        module = _made(make, seat, keywords)
        if weights is not None:
            _load(module, Path(weights), trust)
        self._module = module.to(self._device).eval()
        floats = (each.dtype for each in module.parameters() if each.is_floating_point())
        self._kind = next(floats, self._torch.float32)
        self._stage: Any = None
        if hasattr(self._module, "reset_state"):
            # Only then: a policy that can be reset only as a whole has one episode at a time.
            self.reset = self._reset_state

    def _reset_state(self, seed: int) -> None:
        """Begins an episode with a module that keeps state."""
        self._module.reset_state()

    def act_batch(self, obs: Sequence[Any], seats: Sequence[Any], mask: Array, rngs: Sequence[Any]) -> list[Any]:
        """Answers the rows that are asked, in one forward pass of all rows."""
        scores = self._forward(obs)
        return [self._action(scores[row], rngs[row]) if mask[row] else None for row in range(len(obs))]

    def _forward(self, obs: Sequence[Any]) -> Array:
        torch = self._torch
        try:
            with torch.inference_mode():
                answer: Array = self._module(self._staged(obs)).float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BadInput(
                f"{self._device} has no memory left for batches of {len(obs)} rows: use fewer lanes, or another device"
            ) from error
        return answer

    def _staged(self, obs: Sequence[Any]) -> Any:
        """Puts the rows where the device can fetch them: allocated once, pinned where that is of use."""
        torch = self._torch
        if self._stage is None:
            first = np.asarray(obs[0])
            shape, kind = (len(obs), *first.shape), torch.from_numpy(first.reshape(-1)[:0]).dtype
            self._stage = torch.empty(shape, dtype=kind, pin_memory=self._device.startswith("cuda"))
        rows = self._stage.numpy()
        for row, each in enumerate(obs):
            rows[row] = each
        return self._stage.to(self._device, self._kind, non_blocking=True)

    def _action(self, scores: Array, rng: Any) -> Any:
        if not hasattr(self._space, "n"):
            return scores.astype(self._space.dtype).reshape(self._space.shape)
        if not self._sampled:
            return int(scores.argmax()) + int(self._space.start)
        likely = np.exp((scores - scores.max()).astype(np.float64)).cumsum()
        return int(np.searchsorted(likely, rng.random() * likely[-1], side="right")) + int(self._space.start)


class Held:
    """Makes copies of a module that a training loop holds."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __call__(self) -> Any:
        return copy.deepcopy(self._module)

    def recipe_identity(self) -> dict[str, Any]:
        """What a run must have in common with another one to be the same: weights by their names, and all the rest."""
        return {**self._module.state_dict(), "module": self._module}


def is_module(given: Any) -> bool:
    """Whether it is a torch module, or a class of them, that does not say itself how it acts."""
    torch = sys.modules.get("torch")
    if torch is None or hasattr(given, "act") or hasattr(given, "act_batch"):
        return False
    return isinstance(given, torch.nn.Module) or (isinstance(given, type) and issubclass(given, torch.nn.Module))


def _made(make: Callable[..., Any], seat: Seat, keywords: dict[str, Any]) -> Any:
    takes_seat = "seat" in inspect.signature(make).parameters
    return make(**keywords, **({"seat": seat} if takes_seat else {}))


def _load(module: Any, path: Path, trust: bool) -> None:
    try:
        state = _read(path, trust)
        module.load_state_dict(state)
    except BadInput:
        raise
    except Exception as error:
        text = " ".join(str(error).split())  # torch says in lines of their own which layers do not fit
        if "weights_only" in str(error) or "Unsupported" in str(error):
            text = "it holds more than tensors; if you trust where it comes from, add trust=true"
        raise BadInput(f"the weights in {path} cannot be loaded: {_shortened(text)}") from error


def _shortened(text: str) -> str:
    return text if len(text) <= _WORDS_OF_TORCH else f"{text[:_WORDS_OF_TORCH]} …"


def _read(path: Path, trust: bool) -> Any:
    if path.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError as error:
            raise BadInput(f"{path} needs safetensors: pip install 'paceline[train]'") from error
        return load_file(path)
    return import_torch().load(path, map_location="cpu", weights_only=not trust)
