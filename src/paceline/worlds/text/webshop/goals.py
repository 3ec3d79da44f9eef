"""Goals: from what is wanted of a product to errands with options and a price limit, and who is sent on which.

product, wish ──► an errand per combination of options ──► shuffled once ──► test │ val │ train
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from paceline.errors import BadInput
from paceline.worlds.text.webshop.goods import NO_LIMIT, Dice, Goal, Product, Wish

LIMITS = [10.0 * step for step in range(1, 100)]
TEST, VAL = 500, 1000  # how many goals are set apart, where there are enough of them


def make_goals(stock: Iterable[tuple[Product, Sequence[Wish]]], seed: int, most: int) -> list[Goal]:
    """Makes the goals of a whole catalogue, in the fixed order in which they are dealt out.

    Args:
        stock: Each product with what is wanted of it.
        seed: Of the catalogue: it decides price limits, combinations and the order.
        most: How many combinations of options one wish is turned into; if a product has more, they are drawn.
    """
    goals: list[Goal] = []
    for product, wishes in stock:
        dice = Dice(seed, "goals", product.asin)
        for wish in wishes:
            goals += _errands(product, wish, dice, most)
    return _weighed(Dice(seed, "order").some(goals, len(goals)))


def split(mode: str, count: int) -> range:
    """Gives the numbers of the goals that a mode has: test the first 500, val the next 1000, train the rest.

    Of fewer than 2000 goals, test gets a quarter and val a half. A mode for which nothing is left has all of them.

    Raises:
        BadInput: there is no such mode.
    """
    test, val = min(TEST, count // 4), min(VAL, count // 2)
    ranges = {"test": range(test), "val": range(test, test + val), "train": range(test + val, count)}
    if mode not in ranges:
        raise BadInput(f"webshop has no mode {mode!r}; there are train, val and test")
    return ranges[mode] or range(count)


def _errands(product: Product, wish: Wish, dice: Dice, most: int) -> Iterator[Goal]:
    limit = _limit(product.price, dice)
    said = "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"
    for options in _combinations(product, wish, dice, most):
        spoken = ", and ".join(f"{name}: {value}" for name, value in options if name)
        yield Goal(
            asin=product.asin,
            instruction_text=f"{wish.text}{' with ' + spoken if spoken else ''}{said}",
            attributes=wish.attributes,
            goal_options=options,
            price_upper=limit,
            category=product.category,
            query=product.query,
            product_category=product.product_category,
            name=product.title,
            nouns=product.nouns,
        )


def _limit(price: float, dice: Dice) -> float:
    """The larger of two of the next four tens above the price."""
    above = [limit for limit in LIMITS if limit > price][:4]
    return max(dice.some(above, 2)) if len(above) >= 2 else NO_LIMIT


def _combinations(product: Product, wish: Wish, dice: Dice, most: int) -> Iterator[list[tuple[str, str]]]:
    if wish.options is not None:  # a person has said them, without their names
        yield [("", value) for value in wish.options]
        return
    names = sorted(product.options)
    total = math.prod(len(product.options[name]) for name in names)
    for number in range(total) if total <= most else _different(total, most, dice):
        chosen = []
        for name in names:
            number, index = divmod(number, len(product.options[name]))
            chosen.append((name, product.options[name][index]))
        yield chosen


def _different(total: int, most: int, dice: Dice) -> list[int]:
    """So many different numbers below `total`, without a list of all: there may be millions of combinations."""
    numbers: dict[int, None] = {}
    while len(numbers) < most:
        numbers[dice.below(total)] = None
    return list(numbers)


def _weighed(goals: list[Goal]) -> list[Goal]:
    """Goals whose attributes are rare weigh more; where a person has said the options, all weigh the same."""
    counts = Counter(attribute for goal in goals for attribute in goal.attributes)
    return [replace(goal, weight=_weight(goal, counts)) for goal in goals]


def _weight(goal: Goal, counts: Counter[str]) -> float:
    if any(not name for name, _ in goal.goal_options):
        return 1.0
    return sum(1.0 / counts[attribute] for attribute in goal.attributes) / len(goal.attributes)
