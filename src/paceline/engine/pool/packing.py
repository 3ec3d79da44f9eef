"""What is sent to members or with items: looked at, and packed, before anything of it goes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.engine.transport import codec
from paceline.errors import BadInput, NotSendable, TooLarge

Args = tuple[Any, ...]


def pack_calls(calls: Mapping[int, Args] | None, members: int, most: int) -> dict[int, codec.Packed]:
    """Packs arguments, in member order; what several are given as one object is packed once.

    Args:
        calls: Member → arguments; None: everybody, without arguments.
        members: How many there are.
        most: Bytes that one may be given.

    Raises:
        BadInput: there is no such member, or the arguments are no tuple.
        NotSendable: names what cannot be packed, and for whom it was.
        TooLarge: names who would be given too much.
    """
    packed: dict[int, codec.Packed] = {}
    known: dict[int, bytes] = {}
    for index, args in _in_order(calls, members):
        one: codec.Packed | None = known.get(id(args))
        if one is None:
            one = pack_one(index, args, most)
            if type(one) is bytes:  # large arrays are not shared
                known[id(args)] = one
        packed[index] = one
    return packed


def pack_one(index: int, value: Any, most: int) -> codec.Packed:
    """Packs what is sent to a member, or an item; large arrays are copied, so that they are the journal's own."""
    try:
        packed = codec.pack(value)
    except NotSendable as error:
        raise NotSendable(f"what is sent to {index}: {error}") from error.__cause__
    if type(packed) is bytes and len(packed) <= most:  # as nearly always
        return packed
    check_size(f"what is sent to {index}", codec.size(packed), most, "send")
    return codec.settle(packed)


def check_size(what: str, size: int, most: int, verb: str) -> None:
    """Raises `TooLarge` for a message of too many bytes. The limit is named as a pool's: jobs have no option for it."""
    if size > most:
        raise TooLarge(
            f"{what} has {size:,} bytes, above the limit of {most:,}; {verb} less "
            "(a Pool of your own takes another limit, max_message)"
        )


def _in_order(calls: Mapping[int, Args] | None, members: int) -> Iterable[tuple[int, Args]]:
    if calls is None:
        return [(index, ()) for index in range(members)]
    for index, args in calls.items():
        if not isinstance(args, tuple):
            raise BadInput(f"the arguments of member {index} are a {type(args).__name__}; give a tuple")
        if not 0 <= index < members:
            raise BadInput(f"there is no member {index}; the pool has {members}")
    return sorted(calls.items())
