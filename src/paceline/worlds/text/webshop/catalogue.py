"""Our own catalogue: as many products as you like, each drawn from the catalogue's seed and its own number.

(seed, number) ── Dice ──► kind, brand, name ──► attributes, options, prices ──► texts, reviews ──► Product, Wish
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import capwords

from paceline.worlds.text.webshop.goods import Dice, Product, Review, Wish
from paceline.worlds.text.webshop.wording import (
    BLAME,
    BRANDS,
    CLOSINGS,
    DEPARTMENTS,
    KINDS,
    MIDDLES,
    OPENINGS,
    PRAISE,
    REASONS,
    SERIES,
    Kind,
)

LETTERS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
WITHOUT_OPTION = 0.2  # how often an option that the kind has is missing
WITH_RANGE = 0.3  # how often the price tag is a range


def make_catalogue(seed: int, count: int) -> Iterator[tuple[Product, list[Wish]]]:
    """Draws `count` products and what people want of each; no two have the same number or the same title.

    A longer catalogue of the same seed begins with the shorter one.
    """
    taken: set[str] = set()
    for number in range(count):
        yield _make(Dice(seed, "product", number), taken)


def wish_for(query: str, attributes: Sequence[str]) -> Wish:
    """Puts into words that somebody wants something of a kind, with some attributes."""
    return Wish(f"Look for {query}: {', '.join(attributes)}", attributes)


def settle_price(pricing: Sequence[float], dice: Dice) -> tuple[str, float]:
    """Gives the price tag and the price: of one figure that one, of two something between them."""
    if len(pricing) == 1:
        return f"${pricing[0]}", pricing[0]
    low, high = pricing[:2]
    return f"${low} to ${high}", round(low + (high - low) * dice.fraction(), 2)


def _make(dice: Dice, taken: set[str]) -> tuple[Product, list[Wish]]:
    kind = dice.pick(KINDS)
    brand, series, name = _name(kind, dice, taken)
    attributes = dice.some([*kind.attributes, *DEPARTMENTS[kind.department]], 3 + dice.below(4))
    use = dice.pick(kind.uses)
    price_tag, price = settle_price(_pricing(kind, dice), dice)
    reviews = [_review(dice) for _ in range(dice.below(5))]
    product = Product(
        asin=_asin(dice, taken),
        title=capwords(f"{brand} {series} {attributes[0]} {name} for {use}, {attributes[1]}"),
        description=_description(dice, brand, series, name, use, attributes),
        bullets=[f"{attribute.capitalize()}: {dice.pick(REASONS)}" for attribute in dice.some(attributes, 9)],
        options=_options(kind, dice),
        attributes=attributes,
        reviews=reviews,
        rating=f"{sum(review.score for review in reviews) / len(reviews):.1f}" if reviews else "N.A.",
        category=kind.department,
        query=kind.query,
        product_category=kind.path,
        price_tag=price_tag,
        price=price,
        nouns=[brand.lower(), *name.split()],
    )
    return product, [wish_for(kind.query, dice.some(attributes, 1 + dice.below(3)))]


def _name(kind: Kind, dice: Dice, taken: set[str]) -> tuple[str, str, str]:
    while True:
        brand = dice.pick(BRANDS["begin"]) + dice.pick(BRANDS["end"])
        series, name = dice.pick(SERIES), dice.pick(kind.names)
        if (whole := f"{brand} {series} {name}") not in taken:
            taken.add(whole)
            return brand, series, name


def _asin(dice: Dice, taken: set[str]) -> str:
    while True:
        asin = "PL" + "".join(dice.pick(LETTERS) for _ in range(8))
        if asin not in taken:
            taken.add(asin)
            return asin


def _pricing(kind: Kind, dice: Dice) -> list[float]:
    low, high = kind.prices
    price = low + dice.below(high - low)
    if dice.fraction() >= WITH_RANGE:
        return [price + 0.99]
    return [price + 0.99, price + 2 + dice.below(max(3, (high - low) // 4)) + 0.99]


def _options(kind: Kind, dice: Dice) -> Mapping[str, Sequence[str]]:
    """Some of the kind's options with some of their values, in the kind's order."""
    options = {}
    for name, values in kind.options.items():
        if dice.fraction() >= WITHOUT_OPTION:
            kept = set(dice.some(values, 2 + dice.below(5)))
            options[name] = [value for value in values if value in kept]
    return options


def _description(dice: Dice, brand: str, series: str, name: str, use: str, attributes: Sequence[str]) -> str:
    sentences = (dice.pick(OPENINGS), dice.pick(MIDDLES), dice.pick(CLOSINGS))
    listed = f"{', '.join(attributes[1:-1])} and {attributes[-1]}"
    return " ".join(sentences).format(brand=brand, series=series, name=name, use=use, attributes=listed)


def _review(dice: Dice) -> Review:
    score = 1 + dice.below(5)
    title, body = dice.pick(PRAISE if score > 3 else BLAME)
    return Review(title, float(score), body)
