"""WebShop: find in a shop what an instruction asks for, choose its options, buy it. Played by searching and clicking.

           search[…]              click[asin]            click[description]
   search ──────────► results ──────────────► item ◄──────────────────────► section
     ▲                 ▲   │ < prev · next >   │ click[an option] · click[buy now] ──► done
     └─ back to search ┴───┴───────────────────┘

Which errand it is follows from the seed and the mode; nothing else is random. What cannot be done on a page changes
nothing. The reward is 1 for a purchase that is right in everything and 0 otherwise; `raw_reward` says how right it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paceline.errors import BadInput
from paceline.worlds.text.webshop import pages
from paceline.worlds.text.webshop.config import WebShopConfig
from paceline.worlds.text.webshop.goals import split
from paceline.worlds.text.webshop.goods import Dice, Goal
from paceline.worlds.text.webshop.index import Index
from paceline.worlds.text.webshop.scoring import score
from paceline.worlds.text.webshop.stock import open_stock

INSTRUCTION = (
    "You are shopping in an online shop. An instruction says what to buy: a kind of product, what it must be like, "
    "which options it must have and what it may cost. On the search page, search for a few words that describe it, "
    "leaving out options and price. In the results, click the number of a product that fits, or click[next >] for more "
    "of them. On the page of a product, read about it if you need to, click each option that was asked for, and then "
    "click[buy now]: that ends the errand. An answer is search[<words>] or click[<name>], and the name must be one of "
    "those that are listed as available, for example <answer>search[warm wool socks]</answer> or "
    "<answer>click[buy now]</answer>."
)
LONGEST_ACTION = 2000  # characters; what is longer is no action


@dataclass(frozen=True)
class Visit:
    """Where a shopper stands. It is never changed, only replaced, so it can be kept as it is.

    Attributes:
        goal: The number of the errand.
        page: search, results, item, section or done.
        hits: What the last search has found.
        number: Which page of it.
        item: The product that is looked at.
        chosen: Its options that have been clicked.
        section: What is read about it.
        raw_reward: How right the purchase was.
    """

    goal: int
    page: str = "search"
    hits: tuple[int, ...] = ()
    number: int = 1
    item: int = 0
    chosen: tuple[tuple[str, str], ...] = ()
    section: str = ""
    raw_reward: float = 0.0


class WebShop:
    """A shop to run errands in.

    Args:
        config: The settings, as a mapping or as they are.

    Raises:
        BadInput: a setting is wrong, or the catalogue can be neither read nor made.
    """

    Config = WebShopConfig
    action_lookup: Mapping[int, str] | None = None

    def __init__(self, config: Mapping[str, Any] | WebShopConfig | None = None) -> None:
        self.config = WebShopConfig.read(config, "webshop")
        self._index = open_stock(self.config.source())
        self._kept = _kept_goals(self._index, self.config)
        self._sections = pages.SECTIONS if self.config.show_attrs else pages.SECTIONS[:-1]
        self._visit: Visit | None = None
        self._page: pages.Page = ()
        self._state = ""

    def reset(self, seed: int, mode: str = "train", *, layout: Any = None, dynamics: int | None = None) -> str:
        """Begins an errand: the seed counts through those of the mode. Nothing else is drawn, so the rest is unused.

        Raises:
            BadInput: there is no such mode.
        """
        errands = split(mode, len(self._kept))
        self._enter(Visit(self._kept[errands[seed % len(errands)]]))
        return self._state

    def step(self, action: int | str) -> tuple[str, float, bool, dict[str, Any]]:
        """Searches or clicks.

        Raises:
            BadInput: it has not been reset.
        """
        visit, before = self._now(), self._state
        if visit.page == "done":
            return self._state, 0.0, True, self._info(visit, valid=False, effective=False, raw_reward=0.0)
        after = self._follow(visit, action)
        if after is None:
            return self._state, 0.0, False, self._info(visit, valid=False, effective=False, raw_reward=0.0)
        report = self._buy(visit) if after.page == "done" else {"raw_reward": 0.0}
        after = replace(after, raw_reward=report["raw_reward"])
        self._enter(after)
        info = self._info(after, valid=True, effective=self._state != before, **report)
        return self._state, info["reward"], after.page == "done", info

    def render(self, mode: str | None = None) -> str:
        """Gives the page and what can be done on it.

        Raises:
            BadInput: something else than text is asked for.
        """
        if mode not in (None, "text"):
            raise BadInput(f"webshop is shown as text only, not as {mode!r}")
        return self._state

    def get_available_actions(self) -> list[str]:
        """Gives what can be done on the page."""
        return pages.actions(self._page)

    def get_instruction_text(self) -> str:
        """Gives what the shopper was told."""
        return self.goal.instruction_text

    @property
    def goal(self) -> Goal:
        """The errand."""
        return self._index.goal(self._now().goal)

    def snapshot(self) -> Visit | None:
        """Gives where the shopper stands; None before the first reset."""
        return self._visit

    def restore(self, state: Visit | None) -> None:
        """Goes back to where the shopper stood."""
        if state is None:
            self._visit, self._page, self._state = None, (), ""
        else:
            self._enter(state)

    def close(self) -> None:
        """Leaves. The catalogue stays open for the other environments of the process."""

    def _now(self) -> Visit:
        if self._visit is None:
            raise BadInput("nobody has entered the shop yet: call reset() before the first step")
        return self._visit

    def _enter(self, visit: Visit) -> None:
        self._visit = visit
        self._page = self._show(visit)
        available = ", ".join(pages.actions(self._page)) or "none"
        self._state = f"{pages.write(self._page, self.config.observation_mode)}{pages.ACTIONS}{available}"

    def _show(self, visit: Visit) -> pages.Page:
        told = self._index.goal(visit.goal).instruction_text
        if visit.page == "search":
            return pages.search_page(told)
        if visit.page == "results":
            return pages.results_page(told, visit.number, len(visit.hits), self._index.listings(_shown(visit)))
        product, chosen = self._index.product(visit.item), dict(visit.chosen)
        if visit.page == "item":
            return pages.item_page(told, product, chosen, self._sections)
        if visit.page == "section":
            return pages.section_page(told, product, visit.section)
        return pages.done_page(product, chosen, visit.raw_reward)

    def _follow(self, visit: Visit, action: int | str) -> Visit | None:
        """Where an action leads; None if it cannot be done here."""
        name, content = _parse(action)
        if name == "search" and content and visit.page == "search":
            return Visit(visit.goal, "results", self._index.search(content))
        if name == "click" and content.lower() in pages.clickables(self._page):
            return self._click(visit, content.lower())
        return None

    def _click(self, visit: Visit, name: str) -> Visit:
        if name == pages.BACK.lower():
            return Visit(visit.goal)
        if visit.page == "results":
            return self._click_result(visit, name)
        if name == pages.PREVIOUS.lower():
            return replace(visit, page="item" if visit.page == "section" else "results", section="")
        if name == pages.BUY.lower():
            return replace(visit, page="done")
        for section in self._sections:
            if name == section.lower():
                return replace(visit, page="section", section=section)
        return replace(visit, chosen=self._choose(visit, name))

    def _click_result(self, visit: Visit, name: str) -> Visit:
        if name in (pages.PREVIOUS.lower(), pages.NEXT.lower()):
            return replace(visit, number=visit.number + (1 if name == pages.NEXT.lower() else -1))
        return replace(visit, page="item", item=self._index.number_of(name.upper()), chosen=())

    def _choose(self, visit: Visit, value: str) -> tuple[tuple[str, str], ...]:
        """The options with one more; where two options have the value, it is the latter's."""
        options = self._index.product(visit.item).options
        name = [name for name, values in options.items() if value in map(str.lower, values)][-1]
        return tuple({**dict(visit.chosen), name: value}.items())

    def _buy(self, visit: Visit) -> dict[str, Any]:
        product, goal = self._index.product(visit.item), self._index.goal(visit.goal)
        return score(product, goal, dict(visit.chosen), strict=self.config.strict)

    def _info(self, visit: Visit, *, valid: bool, effective: bool, raw_reward: float, **details: Any) -> dict[str, Any]:
        bought = visit.page == "done"
        right = bought and visit.raw_reward >= 1.0
        return {
            **details,
            "reward": 1.0 if raw_reward >= 1.0 else 0.0,
            "raw_reward": raw_reward,
            "action_is_effective": effective,
            "action_is_valid": valid,
            "success": right,
            "success_purchase": int(bought),
            "success_find": int(right),
            "end_of_page": int(visit.page == "results" and not _shown(visit)),
        }


def _parse(action: int | str) -> tuple[str, str]:
    """Splits `name[content]`; what follows the last bracket is ignored. By hand: a pattern could take for ever."""
    text = action.strip() if isinstance(action, str) and len(action) <= LONGEST_ACTION else ""
    name, bracket, rest = text.partition("[")
    content, end, _ = rest.rpartition("]")
    return (name.strip(), content.strip()) if bracket and end else ("", "")


def _shown(visit: Visit) -> tuple[int, ...]:
    return visit.hits[(visit.number - 1) * pages.WINDOW : visit.number * pages.WINDOW]


def _kept_goals(index: Index, config: WebShopConfig) -> Sequence[int]:
    """The numbers of the goals that are in play: all, those that pass the filter, and of those a limited number."""
    kept: Sequence[int] = range(index.goal_count)
    if config.filter_goals is not None:
        kept = [number for number in kept if config.filter_goals(number, index.goal(number).facts())]
    if 0 <= config.limit_goals < len(kept):
        dice, weights = Dice(config.catalogue_seed, "limit"), index.weights()
        # The largest of random ** (1 / weight) are a draw by weight, each goal once.
        luck = {number: dice.fraction() ** (1 / weights[number]) for number in kept}
        kept = sorted(kept, key=lambda number: -luck[number])[: config.limit_goals]
    if not kept:
        raise BadInput("webshop.filter_goals and webshop.limit_goals leave no goal to play")
    return kept
