"""What is asked of torch, only where something else has loaded it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def torch_if_loaded() -> Any:
    return sys.modules.get("torch")


def is_tensor(cls: type) -> bool:
    torch = torch_if_loaded()
    return torch is not None and issubclass(cls, torch.Tensor)


def is_torch_generator(cls: type) -> bool:
    torch = torch_if_loaded()
    return torch is not None and issubclass(cls, torch.Generator)


def reduced_tensor(thing: Any) -> tuple[Any, ...] | None:
    """How a tensor is pickled: with its gradient, which torch leaves out; None: as torch does it.

    An ordinary one goes by its bytes alone. torch's own way adds the address of its memory, so that an answer that is
    given once more, by a worker in place of one that died, would not be the same.
    """
    torch = torch_if_loaded()
    if torch is None or not isinstance(thing, torch.Tensor):
        return None
    gradient = thing.grad if thing.is_leaf else None
    reduced = _reduced_to_bytes(torch, thing)
    if gradient is None:
        return reduced
    make, arguments, *_ = reduced or thing.__reduce_ex__(5)
    return make, arguments, gradient, None, None, _give_gradient


def _reduced_to_bytes(torch: Any, thing: Any) -> tuple[Any, ...] | None:
    if type(thing) not in (torch.Tensor, torch.nn.Parameter) or vars(thing):
        return None
    if thing.layout is not torch.strided or thing.device.type != "cpu" or not thing.is_contiguous():
        return None
    words = thing.detach().reshape(-1).view(torch.uint8).numpy() if thing.numel() else np.empty(0, "u1")
    is_parameter = type(thing) is torch.nn.Parameter
    return _tensor, (words, str(thing.dtype), tuple(thing.shape), thing.requires_grad, is_parameter)


def _tensor(words: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    torch = torch_if_loaded()
    tensor = torch.from_numpy(words.copy()).view(getattr(torch, dtype.removeprefix("torch."))).reshape(shape)
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _give_gradient(tensor: Any, gradient: Any) -> None:
    tensor.grad = gradient
