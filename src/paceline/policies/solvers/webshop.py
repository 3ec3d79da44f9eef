"""Shoppers: one who knows the whole catalogue, and one who takes the first thing that a search finds.

Both answer a page as they see it and remember nothing, so they can be asked at any page, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from paceline.types import Turn
from paceline.worlds.text.webshop import WebShopConfig, pages
from paceline.worlds.text.webshop.goods import Goal, Product
from paceline.worlds.text.webshop.stock import open_stock

_NUMBER = re.compile(r"Page (\d+) \(Total results: \d+\)")
_BACK, _PREVIOUS, _NEXT, _BUY = (
    f"click[{name.lower()}]" for name in (pages.BACK, pages.PREVIOUS, pages.NEXT, pages.BUY)
)


class Seen(NamedTuple):
    """A page as a shopper reads it.

    Attributes:
        kind: search, results, item, section or done.
        instruction: What to buy.
        parts: The pieces of the page after the instruction.
    """

    kind: str
    instruction: str
    parts: Sequence[str]


class Plan(NamedTuple):
    """How to get what an instruction asks for: what to search, and where among the hits the product stands."""

    product: Product
    goal: Goal
    query: str
    hits: Sequence[str]
    page: int


class WebShopOracle:
    """Knows the catalogue and all errands: it goes straight to the product, chooses the options and buys.

    Args:
        config: The settings of the shop that it is asked about; pages must be written as text.
    """

    def __init__(self, config: Mapping[str, Any] | WebShopConfig | None = None) -> None:
        self._index = open_stock(WebShopConfig.read(config, "webshop").source())
        self._plan = lru_cache(256)(self._make_plan)

    def actions(self, turn: Turn) -> list[str]:
        """Gives the next actions on the page; none after the purchase, or for an errand that it does not know."""
        seen = read_page(turn.state)
        plan = self._plan(seen.instruction)
        if plan is None or seen.kind == "done":
            return []
        if seen.kind == "search":
            return [f"search[{plan.query}]"]
        if seen.kind == "results":
            return [_through_results(seen, plan)]
        if seen.kind == "section":
            return [_PREVIOUS]
        return _at_item(seen, plan)

    def _make_plan(self, instruction: str) -> Plan | None:
        known = self._index.goals_told(instruction)
        if not known:
            return None
        goal = self._index.goal(known[0])
        number = self._index.number_of(goal.asin)
        product = self._index.product(number)
        query, hits = self._best_query(product, number)
        place = hits.index(number) if number in hits else 0
        found = [listing.asin for listing in self._index.listings(hits)]
        return Plan(product, goal, query, found, place // pages.WINDOW + 1)

    def _best_query(self, product: Product, number: int) -> tuple[str, tuple[int, ...]]:
        """The title finds most products; where many have much the same, the whole document does."""
        query = _plain(product.title)
        hits = self._index.search(query)
        if number not in hits:
            query = _plain(product.document())
            hits = self._index.search(query)
        return query, hits


class WebShopShopper:
    """Searches for the instruction itself, clicks the first product and buys it as it is. A baseline to be beaten."""

    def actions(self, turn: Turn) -> list[str]:
        """Gives the next action on the page; none after the purchase."""
        seen = read_page(turn.state)
        if seen.kind == "results":
            listed = _listed(seen)
            return [f"click[{listed[0].lower()}]" if listed else _BACK]
        first = {"search": f"search[{_plain(seen.instruction)}]", "item": _BUY, "section": _PREVIOUS}
        return [first[seen.kind]] if seen.kind in first else []


def read_page(state: str) -> Seen:
    """Reads a page of the shop from its text."""
    parts = state.rpartition(pages.ACTIONS)[0].split(pages.SEPARATOR)
    if "Instruction:" not in parts[:2]:
        return Seen("done", "", parts)
    told = parts.index("Instruction:") + 1
    rest = parts[told + 1 :]
    if parts[0] == "WebShop":
        kind = "search"
    elif any(map(_NUMBER.fullmatch, rest[1:2])):
        kind = "results"
    else:
        kind = "item" if rest[-1] == pages.BUY else "section"
    return Seen(kind, parts[told], rest)


def _plain(text: str) -> str:
    """Without brackets, which would end an action, and not longer than one may be."""
    return re.sub(r"[\[\]|]", " ", text)[:900]


def _listed(seen: Seen) -> list[str]:
    """The numbers of the products on a page of results; each is followed by a title and a price."""
    begin = next((at for at, part in enumerate(seen.parts) if part not in (pages.BACK, pages.PREVIOUS, pages.NEXT)), 0)
    products = [part for part in seen.parts[begin + 1 :] if part not in (pages.PREVIOUS, pages.NEXT)]
    return products[::3]


def _through_results(seen: Seen, plan: Plan) -> str:
    """Clicks the product, or turns toward its page; results of another search than the planned one are left."""
    listed = _listed(seen)
    if plan.product.asin in listed:
        return f"click[{plan.product.asin.lower()}]"
    shown = _NUMBER.fullmatch(seen.parts[1])
    number = int(shown[1]) if shown else 1
    planned = plan.hits[(number - 1) * pages.WINDOW : number * pages.WINDOW]
    if listed != planned or plan.product.asin not in plan.hits:
        return _BACK
    return _NEXT if number < plan.page else _PREVIOUS


def _at_item(seen: Seen, plan: Plan) -> list[str]:
    """Clicks what is still to be chosen, then buys; leaves what is another product."""
    if plan.product.title.strip() not in seen.parts:
        return [_BACK]
    said = next((part.removeprefix(pages.CHOSEN) for part in seen.parts if part.startswith(pages.CHOSEN)), "")
    chosen = said.split("; ")
    wanted = [(name, value) for name, value in plan.goal.goal_options if not _is_chosen(name, value, chosen)]
    return [*(f"click[{value.lower()}]" for _, value in wanted if value.lower() in _values(plan.product)), _BUY]


def _is_chosen(name: str, value: str, chosen: Sequence[str]) -> bool:
    return any(pair == f"{name}: {value}" if name else pair.endswith(f": {value.lower()}") for pair in chosen)


def _values(product: Product) -> set[str]:
    return {value.lower() for values in product.options.values() for value in values}
