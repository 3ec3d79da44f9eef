"""The oracle gets every errand right from what the pages show, wherever it is asked; the plain shopper does not."""

from collections.abc import Iterator
from typing import Any

import pytest

from paceline.policies.solvers.webshop import WebShopOracle, WebShopShopper, read_page
from paceline.types import Turn
from paceline.worlds.text.webshop import WebShop
from paceline.worlds.text.webshop.stock import open_stock

CONFIG = {"products": 300}
BUDGET = 9  # actions of an episode in the original's configuration


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACELINE_CACHE", str(tmp_path_factory.mktemp("cache")))
        open_stock.cache_clear()
        yield
    open_stock.cache_clear()


def ask(policy: Any, state: str) -> list[str]:
    return policy.actions(Turn(0, 0, "WebShop", "webshop", 0, state, BUDGET))  # type: ignore[no-any-return]


def play(env: WebShop, policy: Any, at_once: int = 9) -> tuple[float, float]:
    """Goes on from where the environment is; gives the reward and the raw reward."""
    rewards = raws = 0.0
    for _ in range(BUDGET):
        for action in ask(policy, env.render())[:at_once]:
            _, reward, done, info = env.step(action)
            assert info["action_is_valid"], action
            rewards, raws = rewards + reward, raws + info["raw_reward"]
            if done:
                return rewards, raws
    return rewards, raws


def test_the_oracle_is_always_right_and_the_shopper_rarely() -> None:
    env, oracle, shopper = WebShop(CONFIG), WebShopOracle(CONFIG), WebShopShopper()
    right, plain = [], []
    for seed in range(150):
        mode = ("train", "val", "test")[seed % 3]
        env.reset(seed, mode)
        right.append(play(env, oracle)[0])
        env.reset(seed, mode)
        plain.append(play(env, shopper))
    assert sum(right) == 150
    assert sum(reward for reward, _ in plain) < 30
    assert 0.2 < sum(raw for _, raw in plain) / 150 < 0.9  # it does buy something, and mostly of the right kind


def test_one_action_at_a_time_is_enough() -> None:
    env, oracle = WebShop({**CONFIG, "strict": True}), WebShopOracle(CONFIG)
    for seed in range(20):
        env.reset(seed)
        assert play(env, oracle, at_once=1)[0] == 1.0


ASTRAY = [
    ["search[zeppelin]"],
    ["search[size color pack]", "click[next >]"],
    ["search[size color pack]", "first", "click[description]"],
    ["search[size color pack]", "first", "option"],
    ["own search", "click[next >]", "click[next >]"],
    ["own search", "own product", "click[features]"],
    ["own search", "own product", "option"],
]


@pytest.mark.parametrize("path", ASTRAY)
def test_wherever_it_is_asked_it_finds_its_way(path: list[str]) -> None:
    env, oracle = WebShop(CONFIG), WebShopOracle(CONFIG)
    for seed in range(5):
        env.reset(seed)
        for step in path:
            action = _spelt_out(env, oracle, step)
            assert env.step(action)[3]["action_is_valid"], action
        assert play(env, oracle)[0] == 1.0


def _spelt_out(env: WebShop, oracle: WebShopOracle, step: str) -> str:
    available = env.get_available_actions()
    if step == "own search":
        return ask(oracle, env.render())[0]
    if step == "own product":
        return f"click[{env.goal.asin.lower()}]"
    if step == "first":
        return next(action for action in available if action.startswith("click[pl"))
    return available[-1] if step == "option" else step  # a product without options is bought instead


def test_after_the_purchase_there_is_nothing_to_do() -> None:
    env, oracle = WebShop(CONFIG), WebShopOracle(CONFIG)
    env.reset(1)
    assert play(env, oracle)[0] == 1.0
    assert ask(oracle, env.render()) == ask(WebShopShopper(), env.render()) == []


def test_an_errand_of_another_shop_is_not_known() -> None:
    assert ask(WebShopOracle(CONFIG), "WebShop [SEP] Instruction: [SEP] Find a zeppelin [SEP] Search") == []


def test_nothing_found_sends_the_shopper_back() -> None:
    env = WebShop(CONFIG)
    env.reset(1)
    env.step("search[zeppelin]")
    assert ask(WebShopShopper(), env.render()) == ["click[back to search]"]


def test_pages_are_told_apart() -> None:
    env = WebShop(CONFIG)
    kinds = []
    env.reset(2)
    for action in ("search[size color]", "first", "click[description]", "click[< prev]", "click[buy now]"):
        kinds.append(read_page(env.render()).kind)
        env.step(_spelt_out(env, WebShopOracle(CONFIG), action))
    assert [*kinds, read_page(env.render()).kind] == ["search", "results", "item", "section", "item", "done"]
