"""The shop's pages: what leads where, what is no action, what a purchase pays, and that a seed decides it all."""

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waits import until_over

from paceline.errors import BadInput
from paceline.roles import TextEnv
from paceline.worlds.text.webshop import INSTRUCTION, WebShop, WebShopConfig
from paceline.worlds.text.webshop.stock import open_stock

SMALL = {"products": 150}
NOTHING = {"action_is_valid": False, "action_is_effective": False, "success": False, "raw_reward": 0.0, "reward": 0.0}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACELINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        open_stock.cache_clear()
        yield
    open_stock.cache_clear()


@pytest.fixture
def shop() -> WebShop:
    env = WebShop(SMALL)
    env.reset(3)
    return env


def walk(env: WebShop, *actions: str) -> str:
    """Does what must be possible; gives the last page."""
    for action in actions:
        state, _, _, info = env.step(action)
        assert info["action_is_valid"], (action, state)
    return env.render()


def first_product(env: WebShop) -> str:
    return next(name for name in env.get_available_actions() if re.fullmatch(r"click\[pl\w{8}\]", name))


def with_options(env: WebShop, mode: str = "train") -> int:
    """A seed whose goal has two options."""
    for seed in range(100):
        env.reset(seed, mode)
        if len(env.goal.goal_options) == 2:
            return seed
    raise AssertionError("no goal has two options")


def to_goal(env: WebShop) -> None:
    """Walks to the page of the product that the goal was made from."""
    walk(env, f"search[{env.goal.name}]", f"click[{env.goal.asin.lower()}]")


# -- pages -------------------------------------------------------------------------------------------------


def test_it_is_a_text_environment() -> None:
    env = WebShop(SMALL)
    assert isinstance(env, TextEnv)
    assert env.action_lookup is None
    assert "click[buy now]" in INSTRUCTION


def test_it_begins_with_the_instruction_and_a_bar_to_search_by(shop: WebShop) -> None:
    page, actions = shop.render().split("\nAvailable actions: ")
    assert page.split(" [SEP] ") == ["WebShop", "Instruction:", shop.get_instruction_text(), "Search"]
    assert actions == "search[<content>]"


def test_results_come_ten_to_a_page_and_fifty_at_most(shop: WebShop) -> None:
    state = walk(shop, "search[color size pack]")
    seen = []
    for number in range(1, 6):
        assert f"Page {number} (Total results: 50)" in state
        found = re.findall(r"click\[(pl\w{8})\]", state)
        assert len(found) == 10
        seen += found
        assert ("click[< prev]" in state) == (number > 1)
        state = walk(shop, "click[next >]")
    assert len(set(seen)) == 50


def test_after_the_last_page_there_is_an_empty_one_that_leads_back(shop: WebShop) -> None:
    walk(shop, "search[color size pack]", *["click[next >]"] * 4)
    *_, info = shop.step("click[next >]")
    assert info["end_of_page"] == 1
    assert shop.get_available_actions() == ["click[back to search]", "click[< prev]"]
    assert "Page 5" in walk(shop, "click[< prev]")


def test_an_item_says_what_there_is_to_choose_and_to_read(shop: WebShop) -> None:
    with_options(shop)
    to_goal(shop)
    parts = shop.render().split("\n")[0].split(" [SEP] ")
    assert parts[2:4] == ["Back to Search", "< Prev"]
    assert parts[-4:] == ["Description", "Features", "Reviews", "Buy Now"]
    assert shop.goal.name in parts
    for name, value in shop.goal.goal_options:
        assert parts.index(name) < parts.index(value)
        assert f"click[{value}]" in shop.get_available_actions()


@pytest.mark.parametrize("section", ["description", "features", "reviews"])
def test_a_section_is_read_and_left(shop: WebShop, section: str) -> None:
    to_goal(shop)
    item = shop.render()
    assert walk(shop, f"click[{section}]") != item
    assert shop.get_available_actions() == ["click[back to search]", "click[< prev]"]
    assert walk(shop, "click[< prev]") == item


def test_attributes_are_shown_only_if_asked_for(shop: WebShop) -> None:
    to_goal(shop)
    assert "click[attributes]" not in shop.get_available_actions()
    open_shop = WebShop({**SMALL, "show_attrs": True})
    open_shop.reset(3)
    to_goal(open_shop)
    assert open_shop.goal.attributes[0] in walk(open_shop, "click[attributes]").split(" [SEP] ")


def test_prev_goes_from_an_item_to_the_page_it_was_found_on(shop: WebShop) -> None:
    results = walk(shop, "search[color size pack]", "click[next >]")
    walk(shop, first_product(shop))
    assert walk(shop, "click[< prev]") == results


def test_back_to_search_begins_again_and_forgets_options(shop: WebShop) -> None:
    with_options(shop)
    start = shop.render()
    to_goal(shop)
    walk(shop, f"click[{shop.goal.goal_options[0][1]}]")
    assert walk(shop, "click[back to search]") == start
    to_goal(shop)
    assert "Chosen:" not in shop.render()


def test_an_option_is_chosen_once_and_can_be_changed(shop: WebShop) -> None:
    with_options(shop)
    to_goal(shop)
    name, _ = shop.goal.goal_options[0]
    one, other = shop._index.product(shop.snapshot().item).options[name][:2]  # type: ignore[union-attr]
    assert f"Chosen: {name}: {one} [SEP]" in walk(shop, f"click[{one}]")
    *_, info = shop.step(f"click[{one}]")
    assert (info["action_is_valid"], info["action_is_effective"]) == (True, False)
    assert f"Chosen: {name}: {other} [SEP]" in walk(shop, f"click[{other}]")


@pytest.mark.parametrize("mode", ["text_rich", "html"])
def test_a_page_can_be_written_otherwise(mode: str) -> None:
    env = WebShop({**SMALL, "observation_mode": mode})
    with_options(env)
    to_goal(env)
    value = env.goal.goal_options[0][1]
    plain, chosen = env.render(), walk(env, f"click[{value}]")
    mark = f"[clicked button] {value}" if mode == "text_rich" else f'value="{value}" checked'
    assert mark in chosen
    assert mark not in plain


# -- what is no action -------------------------------------------------------------------------------------

NO_ACTIONS = [
    "", "search", "search[]", "search[ ]", "click[]", "click[search]", "click[nonsense]", "click[buy now]", "buy now",
    "Search[socks]", "please click[back to search]", "search[socks", "]search[",
    "[" * 1_000_000, f"search[{'a' * 3000}]",
]  # fmt: skip


@pytest.mark.parametrize("action", NO_ACTIONS, ids=lambda action: action[:20])
def test_what_cannot_be_done_changes_nothing(shop: WebShop, action: str) -> None:
    before = shop.snapshot()
    state, reward, done, info = shop.step(action)
    assert (state, reward, done) == (shop.render(), 0.0, False)
    assert shop.snapshot() is before
    assert NOTHING.items() <= info.items()


def test_a_number_is_no_action_and_elsewhere_there_is_no_bar(shop: WebShop) -> None:
    assert not shop.step(1)[3]["action_is_valid"]
    walk(shop, "search[socks]")
    assert not shop.step("search[socks]")[3]["action_is_valid"]


HOSTILE = [
    'socks"',
    "socks OR NEAR(",
    "document:socks",
    "-socks *",
    "'; DROP TABLE goals; --",
    "socks\x00\ud800\x1b[2J",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_query_is_words_and_never_syntax(shop: WebShop, query: str) -> None:
    assert "(Total results: " in walk(shop, f"search[{query}]")


def test_a_query_without_words_finds_nothing(shop: WebShop) -> None:
    assert "Page 1 (Total results: 0)" in walk(shop, "search[!? the]")
    assert shop.get_available_actions() == ["click[back to search]"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=30) | st.integers(0, 20), max_size=8), st.integers(0, 1000))
def test_any_text_and_any_clicks_leave_a_page_to_go_on_from(answers: list[Any], seed: int) -> None:
    env = WebShop(SMALL)
    env.reset(seed)
    for answer in answers:
        available = env.get_available_actions()
        action = available[answer % len(available)] if isinstance(answer, int) else f"search[{answer}]"
        _, reward, done, info = env.step(action)
        assert reward == float(info["raw_reward"] >= 1)
        assert bool(env.get_available_actions()) != done
        if done:
            return


# -- the purchase ------------------------------------------------------------------------------------------


def test_the_right_product_with_the_right_options_pays_one(shop: WebShop) -> None:
    with_options(shop)
    to_goal(shop)
    walk(shop, *(f"click[{value}]" for _, value in shop.goal.goal_options))
    state, reward, done, info = shop.step("click[buy now]")
    assert (reward, done, info["raw_reward"]) == (1.0, True, 1.0)
    assert info["success"] is True
    assert (info["success_purchase"], info["success_find"]) == (1, 1)
    assert state.endswith("Available actions: none")


def test_without_its_options_it_pays_nothing_and_says_how_near_it_was(shop: WebShop) -> None:
    with_options(shop)
    to_goal(shop)
    _, reward, done, info = shop.step("click[buy now]")
    asked = len(shop.goal.attributes)
    assert (reward, done, info["success"]) == (0.0, True, False)
    assert info["raw_reward"] == pytest.approx((asked + 1) / (asked + 3))
    assert info["r_option"] == 0.0


def test_after_the_purchase_nothing_happens_any_more(shop: WebShop) -> None:
    to_goal(shop)
    state, *_ = shop.step("click[buy now]")
    for action in ("click[buy now]", "click[back to search]", "search[socks]"):
        again, reward, done, info = shop.step(action)
        assert (again, reward, done) == (state, 0.0, True)
        assert info["action_is_valid"] is False
        assert info["raw_reward"] == 0.0


def test_strict_wants_the_very_size() -> None:
    loose, strict = WebShop(SMALL), WebShop({**SMALL, "strict": True})
    paid = []
    for env in (loose, strict):
        for seed in range(300):
            env.reset(seed)
            if (("size", "large") in env.goal.goal_options) and "x-large" in _sizes(env):
                break
        to_goal(env)
        walk(env, "click[x-large]", *(f"click[{v}]" for name, v in env.goal.goal_options if name != "size"))
        paid.append(env.step("click[buy now]")[1])
    assert paid == [1.0, 0.0]


def _sizes(env: WebShop) -> Any:
    return env._index.product(env._index.number_of(env.goal.asin)).options["size"]


# -- seeds, copies, settings -------------------------------------------------------------------------------


def test_a_seed_and_a_mode_decide_the_goal_whatever_happened_before() -> None:
    one, other = WebShop(SMALL), WebShop(SMALL)
    for mode in ("train", "val", "test"):
        for seed in (0, 1, 99, 10_000, -1):
            one.reset(7, "val")
            one.step("search[socks]")
            assert one.reset(seed, mode) == other.reset(seed, mode, dynamics=5)
    assert one.reset(1) != one.reset(2)


def test_modes_share_no_goal() -> None:
    env = WebShop(SMALL)
    met: dict[str, set[int]] = {mode: set() for mode in ("train", "val", "test")}
    for mode, goals in met.items():
        for seed in range(env._index.goal_count):
            env.reset(seed, mode)
            goals.add(env.snapshot().goal)  # type: ignore[union-attr]
    assert sum(map(len, met.values())) == len(set().union(*met.values())) == env._index.goal_count


def test_another_process_that_starts_at_the_same_time_shows_the_same() -> None:
    """Both find no index, one makes it; and the other's hashes of strings are not ours."""
    program = (
        "from paceline.worlds.text.webshop import WebShop; env = WebShop({'products': 100, 'catalogue_seed': 7});"
        "print(env.reset(5)); print(env.step('search[wool]')[0])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as other:
        env = WebShop({"products": 100, "catalogue_seed": 7})
        said, _ = until_over(other)
    assert said.decode() == f"{env.reset(5)}\n{env.step('search[wool]')[0]}\n"


def test_a_snapshot_travels_and_is_gone_back_to(shop: WebShop) -> None:
    to_goal(shop)
    kept, state = pickle.loads(pickle.dumps(shop.snapshot())), shop.render()
    paid = shop.step("click[buy now]")
    other = pickle.loads(pickle.dumps(WebShop(SMALL)))
    for env in (shop, other):
        env.restore(kept)
        assert env.render() == state
        assert env.step("click[buy now]") == paid


def test_many_environments_share_one_catalogue() -> None:
    assert len({id(WebShop(SMALL)._index) for _ in range(128)}) == 1


def test_goals_can_be_filtered_and_limited() -> None:
    socks = WebShop({**SMALL, "filter_goals": lambda number, goal: goal["query"] == "wool socks"})
    for seed in range(30):
        assert "wool socks" in socks.reset(seed)
    few = WebShop({**SMALL, "limit_goals": 5})
    assert len({few.reset(seed, mode) for seed in range(50) for mode in ("train", "val", "test")}) == 5
    with pytest.raises(BadInput, match="leave no goal"):
        WebShop({**SMALL, "filter_goals": lambda number, goal: False})


def test_only_the_first_products_are_sold_if_so_asked() -> None:
    assert WebShop({**SMALL, "num_products": 20})._index.product_count == 20


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"dataset": "huge"}, "webshop.dataset"),
        ({"datset": "small"}, "did you mean dataset"),
        ({"observation_mode": "image"}, "webshop.observation_mode"),
        ({"human_goals": True}, "set file_path too"),
        ({"file_path": "items_shuffle.json"}, "set attr_path"),
        ({"file_path": "/nowhere/documents.jsonl"}, "cannot be read"),
        ({"products": 0}, "webshop.products"),
    ],
)
def test_a_wrong_setting_is_named(config: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        WebShop(config)


def test_mistakes_are_told(shop: WebShop) -> None:
    with pytest.raises(BadInput, match="call reset"):
        WebShop(SMALL).step("search[socks]")
    with pytest.raises(BadInput, match="no mode 'training'"):
        shop.reset(1, "training")
    with pytest.raises(BadInput, match="as text only"):
        shop.render("rgb_array")


def test_settings_that_are_settings_already_are_taken(shop: WebShop) -> None:
    assert WebShop(WebShopConfig(products=150)).reset(3) == shop.reset(3)
