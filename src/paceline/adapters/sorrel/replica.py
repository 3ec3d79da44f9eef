"""Replica: an object of the user's here, and its copy elsewhere, kept the same by sending what has changed.

    main: model ── changes() ──► bytes ──► apply() ── the copy in a worker
                                                          │ train_step()
    main: model ◄── apply() ◄── bytes ◄── changes() ◄─────┘

Objects are changed in place on both sides, so what the user holds stays what it was: the same network, the same
optimizer, the same arrays. Every mutable object that can be reached has a name, the path on which it was first found,
and a shadow: its state when both sides last agreed. A change is what differs from the shadow: an attribute, an item,
the blocks of an array that were written. Of a replay buffer only the rows that are new are sent.
"""

from __future__ import annotations

import io
import pickle
import threading
import weakref
from collections.abc import Callable, Container, Hashable, Iterator
from typing import Any

from paceline.adapters.sorrel.parts import (
    PLAIN,
    Block,
    Part,
    Ref,
    Whole,
    followed,
    mutable,
    part_of,
    reduced_stream,
    reduced_tensor,
    same,
    whole,
)
from paceline.errors import NotSendable, PacelineError
from paceline.seeds import digest

Name = tuple[Hashable, ...]
Change = tuple[Any, ...]
"""(name, what, …): what is done to the object of that name; see `parts`."""


_LOCKS = {type(make()): (make, ()) for make in (threading.Lock, threading.RLock)}
"""How locks are pickled: a copy has one of its own, which nobody holds."""


class Replica:
    """An object, and what its copy elsewhere is known to be.

    Args:
        root: The object. It can hold others, in any order, shared or not.
        side: Tells names that are given here from those that are given on the other side.
        strict: Whether a change of an object that is not held here any more is an error. It is none where both sides go
            on meanwhile.
    """

    def __init__(self, root: Any, side: str, strict: bool = True) -> None:
        self.root = root
        self._side, self._count, self._strict = side, 0, strict
        self._parts: dict[Name, Part] = {}
        self._names: dict[int, Name] = {}
        self._adopt(root, ())

    def names(self) -> str:
        """The digest of all names, and of what shares memory: equal on both sides, or the copy is not built alike."""
        return digest([sorted(map(repr, self._parts)), sorted(self._overlaps())])

    def _overlaps(self) -> Iterator[tuple[str, str]]:
        """Arrays with memory in common, as views have it."""
        blocks = [(*part.memory(), repr(name)) for name, part in self._parts.items() if isinstance(part, Block)]
        last = (0, "")
        for begin, end, name in sorted(blocks, key=lambda block: (block[0], -block[1], block[2])):
            if begin < last[0]:
                yield last[1], name
            last = max(last, (end, name), key=lambda each: each[0])

    def changes(self) -> bytes:
        """What has changed since both sides agreed; they agree when it has been applied. Empty: nothing."""
        packed = self.propose()
        self.settle()
        return packed

    def propose(self) -> bytes:
        """As `changes`, but the other side may refuse: `settle` or `revert` comes next."""
        changes, reached = self._look()
        self._proposed = changes, reached
        return self._packed(changes) if changes else b""

    def settle(self) -> None:
        """Both sides agree on what was proposed."""
        changes, reached = self._proposed
        for change in changes:
            self._parts[change[0]].agree(change, self._item)
        self._forget(reached)
        self._adopt_new(changes)

    def revert(self) -> None:
        """Takes back what has changed since both sides agreed."""
        changes, _ = self._look()
        for name in dict.fromkeys(change[0] for change in changes):
            self._parts[name].revert(self._value)

    def apply(self, packed: bytes, guarded: Container[int] = ()) -> None:
        """Takes over what `changes` of the other side gave.

        Args:
            packed: The changes.
            guarded: Ids of objects that the other side must not change.

        Raises:
            PacelineError: it has changed one of them; nothing is taken over.
        """
        if not packed:
            return
        self._count += 1
        uid, changes = _Unpickler(io.BytesIO(packed), self._named).load()
        known = [change for change in changes if change[0] in self._parts]
        if self._strict and len(known) < len(changes):
            raise PacelineError(f"{len(changes) - len(known)} changes are of objects that this side does not hold")
        for change in known:
            if id(thing := self._parts[change[0]].thing) in guarded:
                raise PacelineError(f"a {type(thing).__name__} ({change[1]} {change[2]!r:.60}) belongs to others, too")
        for change in known:
            self._parts[change[0]].make(change)
        self._adopt_new(changes, uid)
        for change in known:
            self._parts[change[0]].agree(change, self._item)

    def ids(self) -> dict[int, bool]:
        """The ids of all mutable objects, and whether each is what learning changes: root, arrays, generators."""
        return {id(part.thing): part.thing is self.root or part.is_numbers for part in self._parts.values()}

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in vars(self).items() if name not in ("_names", "_proposed")}
        return _restored, (Sent(state, self._names),)

    # -- names -------------------------------------------------------------------------------------------------

    def _adopt(self, value: Any, name: Name) -> None:
        """Names an object and all that it holds, and takes their shadows."""
        found: list[Part] = []
        stack = [(value, name)]
        while stack:
            thing, path = stack.pop()
            if not followed(thing):
                raise NotSendable(f"at {path} it holds a {type(thing).__name__}, and how far that is cannot be told")
            if not mutable(thing) or id(thing) in self._names:
                stack += [(inner, (*path, key)) for key, inner in _inside(thing)]
                continue
            part = part_of(thing)
            self._names[id(thing)], self._parts[path] = path, part
            found.append(part)
            stack += [(inner, (*path, key)) for key, inner in reversed(list(part.children()))]
        for part in found:
            part.begin(self._item)

    def _adopt_new(self, changes: list[Change], uid: tuple[str, int] | None = None) -> None:
        """Names the objects that have come with changes, on both sides in the same order."""
        uid = uid or (self._side, self._count)
        for number, change in enumerate(changes):
            for place, value in enumerate(change[2:]):
                for key, thing in _new(value):
                    if id(thing) not in self._names:
                        self._adopt(thing, (*uid, number, place, *key))

    def _forget(self, reached: set[Name]) -> None:
        for name in [name for name in self._parts if name not in reached]:
            del self._names[id(self._parts.pop(name).thing)]

    # -- changes -----------------------------------------------------------------------------------------------

    def _look(self) -> tuple[list[Change], set[Name]]:
        """The changes of all objects that can be reached now, and which those are."""
        changes: list[Change] = []
        reached: set[Name] = set()
        unknown: set[int] = set()
        stack: list[Any] = [self.root]
        while stack:
            thing = stack.pop()
            if type(thing) in PLAIN:
                continue
            if not mutable(thing):
                if isinstance(thing, tuple):
                    stack += thing
                continue
            name = self._names.get(id(thing))
            if name is None:  # new: it is sent with what holds it, but it may hold objects that are known
                if id(thing) not in unknown:
                    unknown.add(id(thing))
                    stack += part_of(thing).held()
            elif name not in reached:
                reached.add(name)
                part = self._parts[name]
                changes += [(name, *change) for change in part.changes(self._item)]
                stack += part.held()
        return changes, reached

    def _item(self, value: Any) -> Any:
        """How a shadow notes what an object holds: a mutable object by its identity, others by their value."""
        if mutable(value):
            return Ref(value)
        if type(value) is tuple:
            return tuple(self._item(inner) for inner in value)
        return Whole(value) if whole(value) else value

    def _value(self, item: Any) -> Any:
        if type(item) is Ref:
            return item.thing
        if type(item) is Whole:
            return pickle.loads(item.content)
        return tuple(self._value(inner) for inner in item) if type(item) is tuple else item

    def _packed(self, changes: list[Change]) -> bytes:
        self._count += 1
        out = io.BytesIO()
        _pickler(out, self._name_of, self._names).dump(((self._side, self._count), changes))
        return out.getvalue()

    def _name_of(self, thing: Any) -> Name | None:
        name = self._names.get(id(thing))
        return name if name is not None and self._parts[name].thing is thing else None

    def _named(self, name: Name) -> Any:
        if name not in self._parts:
            raise PacelineError(f"a change speaks of {name}, which this side no longer holds")
        return self._parts[name].thing


class Sent:
    """A value on its way: unpickled, it is the value. What it holds is pickled as changes are.

    Args:
        value: The value.
        names: Ids of objects in it to which weak references may point.
    """

    def __init__(self, value: Any, names: Container[int] = ()) -> None:
        self.value, self._names = value, names

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        out, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _pickler(out, lambda _: None, self._names, buffers.append if protocol > 4 else None).dump(self.value)
        return _opened, (out.getvalue(), buffers)


def copied(thing: Any) -> Any:
    """A copy, as it would be in a worker."""
    return pickle.loads(pickle.dumps(Sent(thing), 5))


def _opened(packed: bytes, buffers: list[Any]) -> Any:
    return pickle.loads(packed, buffers=buffers)


def _restored(state: dict[str, Any]) -> Replica:
    replica = Replica.__new__(Replica)
    vars(replica).update(state, _names={id(part.thing): name for name, part in state["_parts"].items()})
    for part in replica._parts.values():
        part.unpickled(replica._value)
    return replica


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, to the last bit: observations, say."""
    return same(one, other) or (type(one) is type(other) and digest(one) == digest(other))


def _inside(thing: Any) -> Iterator[tuple[Hashable, Any]]:
    if isinstance(thing, tuple):
        yield from enumerate(thing)


def _new(value: Any) -> Iterator[tuple[Name, Any]]:
    """The mutable objects in the arguments of a change, in an order of their own."""
    if mutable(value):
        yield (), value
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            for key, thing in _new(inner):
                yield (number, *key), thing


def _pickler(
    out: io.BytesIO,
    name_of: Callable[[Any], Name | None],
    names: Container[int],
    apart: Callable[[Any], Any] | None = None,
) -> Any:
    import cloudpickle

    def weakly(thing: Any) -> tuple[Any, ...] | None:
        """A weak reference, as torch's recurrent layers have them to their weights, if what it points to goes too."""
        target = thing() if type(thing) is weakref.ref else None
        return (weakref.ref, (target,)) if id(target) in names else None

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, thing: Any) -> Any:
            return name_of(thing)

        def reducer_override(self, thing: Any) -> Any:
            known = reduced_stream(thing) or reduced_tensor(thing) or _LOCKS.get(type(thing)) or weakly(thing)
            return super().reducer_override(thing) if known is None else known

    return Pickler(out, protocol=5, buffer_callback=apart)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, named: Callable[[Name], Any]) -> None:
        super().__init__(file)
        self._find = named

    def persistent_load(self, name: Any) -> Any:
        return self._find(name)
