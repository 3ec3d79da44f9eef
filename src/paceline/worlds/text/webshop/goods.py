"""What a shop holds and what a shopper is sent for: products, wishes, goals. Plain data, kept as JSON in the index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from paceline.seeds import Key, sequence

T = TypeVar("T")

NO_LIMIT = 1_000_000.0  # the price limit of a goal that names none


class Review(NamedTuple):
    """What a buyer says."""

    title: str
    score: float
    body: str


class Wish(NamedTuple):
    """What somebody wants of a product, before options and a price limit are settled.

    Attributes:
        text: The beginning of the instruction.
        attributes: What the product must be.
        options: The option values asked for; None: each combination that the product has makes a goal of its own.
    """

    text: str
    attributes: Sequence[str]
    options: Sequence[str] | None = None


@dataclass(frozen=True)
class Product:
    """A product, as its pages show it and as a purchase is scored.

    Attributes:
        asin: Its number: up to ten characters, in capitals.
        title: Its name.
        description: A few sentences.
        bullets: Its features.
        options: Name of an option → the values that can be clicked.
        attributes: What it is, in two words or so each.
        reviews: What buyers say.
        rating: What they say on average, or "N.A.".
        category: The department: beauty, electronics, fashion, garden, grocery.
        query: What one would look for to find it.
        product_category: Its place in the tree of categories, from the root, with › between.
        price_tag: The price or the range of prices that is shown.
        price: What it costs; somewhere in the range.
        nouns: The nouns of the title; two products of one type share some.
    """

    asin: str
    title: str
    description: str
    bullets: Sequence[str]
    options: Mapping[str, Sequence[str]]
    attributes: Sequence[str]
    reviews: Sequence[Review]
    rating: str
    category: str
    query: str
    product_category: str
    price_tag: str
    price: float
    nouns: Sequence[str]

    def document(self) -> str:
        """What a search looks through: title, description, first feature and options."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join([self.title, self.description, *self.bullets[:1], options]).lower()

    def to_json(self) -> str:
        """Writes it down."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        values = json.loads(text)
        values["reviews"] = [Review(*review) for review in values["reviews"]]
        return cls(**values)


@dataclass(frozen=True)
class Goal:
    """A shopping errand. The shopper sees the text; the rest is what the purchase is compared with.

    Attributes:
        asin: A product that fulfils it.
        instruction_text: What the shopper is told.
        attributes: What the product must be.
        goal_options: Pairs of an option's name and its value; the name is empty where the source gives none.
        price_upper: What it may cost at most.
        category: As in the product.
        query: As in the product.
        product_category: As in the product.
        name: The product's title.
        nouns: The nouns of that title.
        weight: How likely it is to be drawn when only some goals are kept.
    """

    asin: str
    instruction_text: str
    attributes: Sequence[str]
    goal_options: Sequence[tuple[str, str]]
    price_upper: float
    category: str
    query: str
    product_category: str
    name: str
    nouns: Sequence[str]
    weight: float = 1.0

    def facts(self) -> dict[str, Any]:
        """As a mapping; options by name, or a list of values where they have no names."""
        named = all(name for name, _ in self.goal_options)
        options = dict(self.goal_options) if named else [value for _, value in self.goal_options]
        return {**asdict(self), "goal_options": options}

    def to_json(self) -> str:
        """Writes it down."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        values = json.loads(text)
        values["goal_options"] = [(name, value) for name, value in values["goal_options"]]
        return cls(**values)


class Dice:
    """Draws that follow from a key alone.

    Everything comes from uniform doubles, because those are what NumPy has kept the same through its versions.
    """

    def __init__(self, seed: int, *key: Key) -> None:
        self._random = np.random.default_rng(sequence(seed, "webshop", *key)).random

    def fraction(self) -> float:
        """A number from 0 up to 1."""
        return float(self._random())

    def below(self, count: int) -> int:
        """A whole number from 0 up to `count`."""
        return int(self._random() * count)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """So many different items, in the order drawn; all of them if there are not as many."""
        left = list(items)
        count = min(count, len(left))
        for place in range(count):
            drawn = place + self.below(len(left) - place)
            left[place], left[drawn] = left[drawn], left[place]
        return left[:count]
