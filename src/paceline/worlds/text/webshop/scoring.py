"""How well a purchase fulfils a goal: the reward of the original WebShop.

raw = r_type · (attributes met + options met + [price ≤ limit]) / (attributes + options + 1)

Words are compared loosely, as they are there: two texts match if their token set ratio is above 85. So an option
"large" is met by "xx-large", whose words hold it; `strict` asks for the very value instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.worlds.text.webshop.goods import Goal, Product

MATCH = 85
MUCH, LITTLE = 0.2, 0.1  # of the goal's nouns, what share makes the same type, and what share hardly any

_WORDS = re.compile(r"[^\W_]+")

# A colour is compared by its first plain name found in this order: "dark green" is "dark", "navy blue" is "blue".
PLAIN_COLORS = _WORDS.findall(
    "aqua beige black blue bronze brown burgundy camel champagne charcoal chocolate coffee copper coral cream crystal "
    "dark denim espresso fuchsia gold gray green grey indigo ivory khaki lavender lemon light lilac lime magenta "
    "maroon mauve mint mustard natural navy nude olive orange peach pink plum purple rainbow red rose royal rust sand "
    "silver slate stone tan taupe teal turquoise violet walnut white wine yellow"
)


def score(product: Product, goal: Goal, options: Mapping[str, str], *, strict: bool = False) -> dict[str, Any]:
    """Compares what was bought with what was asked for.

    Args:
        product: What was bought.
        goal: What was asked for.
        options: Name → value of what was clicked.
        strict: Whether an option must have exactly the value that was asked for.

    Returns:
        `raw_reward`, from 0 to 1, and what it is made of: `r_type`, `r_att`, `r_option` and `r_price` with their
        weights `w_…`, `query_match`, `category_match`, `title_score`.
    """
    attributes = sum(_has(product, attribute) for attribute in goal.attributes)
    met = _options_met(goal.goal_options, options, strict)
    cheap = product.price <= goal.price_upper
    parts = len(goal.attributes) + len(goal.goal_options) + 1
    kind = _type(product, goal)
    report = {"raw_reward": kind["r_type"] * (attributes + met + cheap) / parts, **kind}
    report |= {"r_att": attributes / len(goal.attributes), "w_att": len(goal.attributes) / parts}
    if goal.goal_options:
        report |= {"r_option": met / len(goal.goal_options), "w_option": len(goal.goal_options) / parts}
    return report | {"r_price": float(cheap), "w_price": 1 / parts}


def _type(product: Product, goal: Goal) -> dict[str, Any]:
    """Is it the same type of thing? A title without any of the goal's nouns is nothing, whatever its category."""
    wanted = set(goal.nouns)
    title_score = len(wanted & set(product.nouns)) / len(wanted) if wanted else MUCH
    query_match = product.query == goal.query
    category_match = len(_branches(product.product_category) & _branches(goal.product_category)) >= 2
    r_type = 1.0 if query_match or category_match or title_score > MUCH else 0.5
    if title_score < LITTLE:
        r_type = 0.1 if title_score else 0.0
    return {
        "r_type": r_type,
        "query_match": float(query_match),
        "category_match": float(category_match),
        "title_score": title_score,
    }


def _branches(path: str) -> set[str]:
    return {part.strip() for part in path.split("›")}


def _has(product: Product, attribute: str) -> bool:
    if any(token_set_ratio(own, attribute) > MATCH for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def _options_met(wanted: Sequence[tuple[str, str]], clicked: Mapping[str, str], strict: bool) -> int:
    if strict:
        return sum(clicked.get(name) == value if name else value in clicked.values() for name, value in wanted)
    bought = [_plain_color(value) for value in clicked.values()]
    return sum(any(token_set_ratio(own, _plain_color(value)) > MATCH for own in bought) for _, value in wanted)


def _plain_color(value: str) -> str:
    return next((color for color in PLAIN_COLORS if color in value), value)


def token_set_ratio(one: str, other: str) -> int:
    """How alike two texts are as sets of words, from 0 to 100.

    100 if all words of one are in the other. Else the best likeness between the shared words, the shared words with the
    rest of the one, and the shared words with the rest of the other; each part sorted and joined by spaces.
    """
    ones, others = (set(_WORDS.findall(text.lower())) for text in (one, other))
    shared = ones & others
    if not ones or not others:
        return 0
    if shared in (ones, others):
        return 100
    head = " ".join(sorted(shared))
    first, second = (" ".join([*sorted(shared), *sorted(words - shared)]) for words in (ones, others))
    pairs = [(head, first), (head, second), (first, second)]
    return max(round(100 * _likeness(*pair)) for pair in pairs)


def _likeness(one: str, other: str) -> float:
    """Twice the longest common subsequence over both lengths: 1 for equals, 0 for nothing in common."""
    return 2 * common_length(one, other) / (len(one) + len(other))


def common_length(one: str, other: str) -> int:
    """How long the longest common subsequence of two texts is.

    A column of the usual table is kept as the bits of one integer: bit i is 0 where the table grows by one between
    rows i and i + 1. Addition carries such a step down to the next place where the letters agree.
    """
    places: dict[str, int] = {}
    for index, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << index
    full = (1 << len(one)) - 1
    flat = full
    for letter in other:
        same = flat & places.get(letter, 0)
        flat = ((flat + same) | (flat - same)) & full
    return len(one) - flat.bit_count()
