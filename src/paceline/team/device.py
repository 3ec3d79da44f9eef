"""Devices: where networks are put. Part of a run, not of its plan: another device gives other bits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from paceline.errors import BadInput


def import_torch() -> Any:
    """Gives torch.

    Raises:
        BadInput: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise BadInput("this policy needs PyTorch: pip install 'paceline[train]'") from error
    return torch


def one_thread() -> Callable[[], None]:
    """Has torch compute on one thread, as it does in every worker, if it is there. Returns what puts it back."""
    torch = sys.modules.get("torch")
    if torch is None:
        return lambda: None
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before)


def find_device(name: str) -> str:
    """Gives the device of that name: "auto" is the best there is.

    Raises:
        BadInput: it is not there.
    """
    torch = import_torch()
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    there = {"cpu": True, "cuda": cuda, "mps": mps}.get(str(name).partition(":")[0])
    if there is None:
        raise BadInput(f"device={name!r}: give auto, cpu, cuda or mps")
    if not there:
        raise BadInput(f"device={name!r} is not there, or torch was built without it: use device='cpu' or 'auto'")
    return name
