"""Our own catalogue and its goals: the same for a seed, varied enough, and every goal can be fulfilled."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import digest
from paceline.errors import BadInput
from paceline.worlds.text.webshop.catalogue import make_catalogue
from paceline.worlds.text.webshop.goals import make_goals, split
from paceline.worlds.text.webshop.goods import NO_LIMIT, Dice, Goal, Product, Wish
from paceline.worlds.text.webshop.scoring import score
from paceline.worlds.text.webshop.stock import EDITION, OWN_COMBINATIONS
from paceline.worlds.text.webshop.wording import DEPARTMENTS, KINDS


@pytest.fixture(scope="module")
def stock() -> list[tuple[Product, list[Wish]]]:
    return list(make_catalogue(0, 1000))


@pytest.fixture(scope="module")
def goals(stock: list[tuple[Product, list[Wish]]]) -> list[Goal]:
    return make_goals(stock, 0, OWN_COMBINATIONS)


def test_a_changed_catalogue_has_another_edition(stock: list[tuple[Product, list[Wish]]], goals: list[Goal]) -> None:
    """Files in users' caches are named by the edition: whoever changes texts or draws must raise it."""
    texts = [product.to_json() for product, _ in stock[:100]] + [goal.to_json() for goal in goals[:100]]
    assert (EDITION, digest(texts)[:16]) == (1, "7e68e5481a2dd735")


def test_it_is_large_enough(stock: list[tuple[Product, list[Wish]]], goals: list[Goal]) -> None:
    assert len(goals) >= 2500
    assert {product.query for product, _ in stock} == {kind.query for kind in KINDS}
    assert {product.category for product, _ in stock} == DEPARTMENTS.keys()
    assert Counter(len(goal.goal_options) for goal in goals).keys() == {0, 1, 2, 3}


def test_no_two_products_have_the_same_number_or_title(stock: list[tuple[Product, list[Wish]]]) -> None:
    for names in zip(*((product.asin, product.title) for product, _ in stock), strict=True):
        assert len(set(names)) == len(stock)


def test_a_longer_catalogue_begins_with_the_shorter(stock: list[tuple[Product, list[Wish]]]) -> None:
    assert list(make_catalogue(0, 30)) == stock[:30]
    assert list(make_catalogue(1, 30)) != stock[:30]


def test_every_goal_is_fulfilled_by_its_own_product(stock: list[tuple[Product, list[Wish]]], goals: list[Goal]) -> None:
    products = {product.asin: product for product, _ in stock}
    for goal in goals[::7]:
        assert score(products[goal.asin], goal, dict(goal.goal_options), strict=True)["raw_reward"] == 1.0


def test_an_instruction_says_everything_that_is_paid_for(goals: list[Goal]) -> None:
    for goal in goals[::7]:
        wanted = [goal.query, *goal.attributes, *(f"{name}: {value}" for name, value in goal.goal_options)]
        wanted.append(f"price lower than {goal.price_upper:.2f} dollars")
        assert all(text in goal.instruction_text for text in wanted)


def test_all_names_of_a_kind_share_a_word() -> None:
    for kind in KINDS:
        assert set.intersection(*(set(name.split()) for name in kind.names)), kind.query


def test_goods_are_written_down_and_read(stock: list[tuple[Product, list[Wish]]], goals: list[Goal]) -> None:
    for product, _ in stock[:20]:
        assert Product.from_json(product.to_json()) == product
    for goal in goals[:20]:
        assert Goal.from_json(goal.to_json()) == goal


def test_what_is_too_dear_for_a_limit_has_none(stock: list[tuple[Product, list[Wish]]]) -> None:
    product = stock[0][0]
    dear = Product(**{**vars(product), "price": 5000.0, "options": {}})
    (goal,) = make_goals([(dear, [Wish("Look", ["a b"])])], 0, 4)
    assert (goal.price_upper, goal.instruction_text) == (NO_LIMIT, "Look")


def test_of_very_many_combinations_some_are_drawn(stock: list[tuple[Product, list[Wish]]]) -> None:
    wide = {f"option {n}": [f"{n}.{value}" for value in range(30)] for n in range(12)}
    product = Product(**{**vars(stock[0][0]), "options": wide})
    goals = make_goals([(product, [Wish("Look", ["a b"])])], 0, 6)
    assert len({tuple(goal.goal_options) for goal in goals}) == 6


# -- modes -------------------------------------------------------------------------------------------------


def test_with_enough_goals_the_modes_are_those_of_the_original() -> None:
    assert [split(mode, 3580) for mode in ("test", "val", "train")] == [range(500), range(500, 1500), range(1500, 3580)]


@given(st.integers(1, 5000))
def test_every_mode_has_goals_and_none_is_left_out(count: int) -> None:
    parts = [split(mode, count) for mode in ("test", "val", "train")]
    assert all(parts)
    assert set().union(*parts) == set(range(count))
    if count >= 4:
        assert sum(map(len, parts)) == count


def test_there_are_three_modes() -> None:
    with pytest.raises(BadInput, match="train, val and test"):
        split("eval", 10)


# -- dice --------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.lists(st.integers(), unique=True, max_size=20), st.integers(0, 25))
def test_some_are_different_and_follow_from_the_key(seed: int, items: list[int], count: int) -> None:
    drawn = Dice(seed, "test").some(items, count)
    assert drawn == Dice(seed, "test").some(items, count)
    assert len(drawn) == min(count, len(items))
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= set(items)
