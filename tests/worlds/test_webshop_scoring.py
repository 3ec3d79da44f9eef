"""How a purchase is scored: the formula, its parts, and how loosely words are compared."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.worlds.text.webshop.goods import Goal, Product
from paceline.worlds.text.webshop.scoring import common_length, score, token_set_ratio

SHIRT = Product(
    asin="PL00000001",
    title="Norwick Harbor Henley Shirt",
    description="Made for layering, with a Button Placket.",
    bullets=["Ribbed cuffs: they hold"],
    options={"size": ["large", "xx-large"], "color": ["black", "dark green"]},
    attributes=["slim fit", "cotton blend"],
    reviews=[],
    rating="N.A.",
    category="fashion",
    query="men's henleys",
    product_category="Clothing › Men › Shirts › Henleys",
    price_tag="$19.99",
    price=19.99,
    nouns=["norwick", "henley", "shirt"],
)
GOAL = Goal(
    asin="PL00000001",
    instruction_text="",
    attributes=["slim fit", "ribbed cuffs"],
    goal_options=[("size", "large"), ("color", "black")],
    price_upper=30.0,
    category="fashion",
    query="men's henleys",
    product_category="Clothing › Men › Shirts › Henleys",
    name="Norwick Harbor Henley Shirt",
    nouns=["norwick", "henley", "shirt"],
)
RIGHT = {"size": "large", "color": "black"}


def test_all_right_is_one_with_weights_that_add_up() -> None:
    report = score(SHIRT, GOAL, RIGHT)
    assert report["raw_reward"] == 1.0
    assert report["w_att"] + report["w_option"] + report["w_price"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("product", "options", "part"),
    [
        (SHIRT, {"size": "large"}, 4 / 5),
        (SHIRT, {}, 3 / 5),
        (replace(SHIRT, price=30.01), RIGHT, 4 / 5),
        (replace(SHIRT, attributes=["loose fit"]), RIGHT, 4 / 5),
        (replace(SHIRT, bullets=[]), RIGHT, 4 / 5),
        (replace(SHIRT, bullets=[], description="RIBBED CUFFS"), RIGHT, 1.0),
        (replace(SHIRT, attributes=["fit slim", "more"]), RIGHT, 1.0),
    ],
)
def test_each_thing_that_is_right_counts_the_same(product: Product, options: dict[str, str], part: float) -> None:
    assert score(product, GOAL, options)["raw_reward"] == pytest.approx(part)


@pytest.mark.parametrize(
    ("changes", "r_type"),
    [
        ({"nouns": ["other", "henley", "tee"]}, 1.0),
        ({"query": "shirts", "product_category": "Clothing › Men", "nouns": ["henley"]}, 1.0),
        ({"query": "shirts", "product_category": "Clothing", "nouns": ["henley"]}, 1.0),
        ({"nouns": ["lamp"]}, 0.0),
        ({"query": "lamps", "product_category": "Home", "nouns": ["lamp"]}, 0.0),
    ],
)
def test_another_type_of_thing_is_worth_less(changes: dict[str, object], r_type: float) -> None:
    report = score(replace(SHIRT, **changes), GOAL, RIGHT)  # type: ignore[arg-type]
    assert report["r_type"] == r_type
    assert report["raw_reward"] == pytest.approx(r_type)


@pytest.mark.parametrize(("shared", "r_type"), [(3, 1.0), (2, 0.5), (1, 0.1)])
def test_a_title_that_shares_few_nouns_is_worth_little(shared: int, r_type: float) -> None:
    names = [f"noun{n}" for n in range(12)]
    other = replace(SHIRT, query="lamps", product_category="Home", nouns=names[:shared])
    assert score(other, replace(GOAL, nouns=names), RIGHT)["r_type"] == r_type


def test_a_goal_without_nouns_or_options_can_be_met() -> None:
    assert score(SHIRT, replace(GOAL, nouns=[], goal_options=[]), {})["raw_reward"] == 1.0


@pytest.mark.parametrize(
    ("wanted", "bought", "loose", "strict"),
    [
        ("large", "large", 1, 1),
        ("large", "xx-large", 1, 0),
        ("xx-large", "large", 1, 0),
        ("large", "small", 0, 0),
        ("dark green", "dark red", 1, 0),
        ("navy blue", "sky blue", 1, 0),
        ("navy", "black", 0, 0),
    ],
)
def test_options_are_compared_loosely_or_strictly(wanted: str, bought: str, loose: int, strict: int) -> None:
    for name in ("size", ""):  # where people have said the value only, any option may have it
        goal = replace(GOAL, goal_options=[(name, wanted)])
        assert score(SHIRT, goal, {"size": bought})["r_option"] == loose
        assert score(SHIRT, goal, {"size": bought}, strict=True)["r_option"] == strict


# -- likeness ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        ("slim fit", "Slim-Fit", 100),
        ("fit slim", "slim fit", 100),
        ("large", "xx-large", 100),
        ("", "large", 0),
        ("!?", "large", 0),
        ("abc", "xyz", 0),
        ("gluten free", "sugar free", 57),  # "free gluten" and "free sugar" share 6 signs in order, of 11 and 10
        ("pack of 1", "pack of 12", 95),
        ("paraben free", "parabens free", 96),
        ("water proof", "waterproof", 48),
    ],
)
def test_the_token_set_ratio_of_some_pairs(one: str, other: str, ratio: int) -> None:
    assert token_set_ratio(one, other) == token_set_ratio(other, one) == ratio


TEXTS = st.text("abc ", max_size=12)


@given(TEXTS, TEXTS)
def test_the_ratio_is_symmetric_and_ignores_order_and_repeats(one: str, other: str) -> None:
    ratio = token_set_ratio(one, other)
    assert 0 <= ratio <= 100
    assert ratio == token_set_ratio(other, one)
    assert ratio == token_set_ratio(" ".join(reversed(one.split())) + " " + one, other)


@given(TEXTS, TEXTS)
def test_the_common_length_is_that_of_the_plain_table(one: str, other: str) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert common_length(one, other) == table[-1][-1]
