"""The original WebShop's files are read as they are: items with their attributes, people's words, documents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import BadInput
from paceline.worlds.text.webshop import WebShop
from paceline.worlds.text.webshop.goods import Product, Wish
from paceline.worlds.text.webshop.originals import Files, load_originals
from paceline.worlds.text.webshop.stock import open_stock


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PACELINE_CACHE", str(tmp_path / "cache"))
    yield
    open_stock.cache_clear()


def item(asin: str, **changes: Any) -> dict[str, Any]:
    """A product in the form of items_shuffle.json."""
    options = {
        "Size": [{"value": "Small ", "image": None}, {"value": "Large/Tall"}],
        "Color": [{"value": "Navy", "is_selected": True}],
        "Style": None,
    }
    return {
        "asin": asin,
        "name": f"Harbor Rain Jacket {asin[-1]} with Hood",
        "full_description": "Keeps the rain out.",
        "small_description": ["Taped seams ", "Adjustable hood"],
        "pricing": "$16.99$26.99",
        "images": ["https://example.org/a.jpg"],
        "product_category": "Clothing › Outerwear › Jackets",
        "category": "fashion",
        "query": " Rain Jackets ",
        "customization_options": options,
        **changes,
    }


ATTRIBUTES: dict[str, Any] = {
    "B000000001": {
        "attributes": ["taped seams", "wind proof"],
        "instruction": "Find me wind proof rain jackets",
        "instruction_attributes": ["wind proof"],
    },
    "B000000002": {"attributes": ["long back"]},
}
PEOPLE = {
    "B000000001": [
        {"instruction": "i need a jacket.", "instruction_attributes": ["wind proof"], "instruction_options": ["navy"]},
        {"instruction": "nothing said", "instruction_attributes": [], "instruction_options": []},
    ]
}


def write(folder: Path, *items: dict[str, Any]) -> Files:
    paths = [folder / name for name in ("items_shuffle_3.json", "items_ins_v2_3.json", "items_human_ins.json")]
    for path, content in zip(paths, (list(items), ATTRIBUTES, PEOPLE), strict=True):
        path.write_text(json.dumps(content))
    return Files(*map(str, paths))


def load(files: Files, **options: Any) -> list[tuple[Product, list[Wish]]]:
    return list(load_originals(files, **{"seed": 0, "first": None, "human_goals": False, **options}))


def test_an_item_becomes_a_product(tmp_path: Path) -> None:
    ((product, wishes),) = load(write(tmp_path, item("B000000001")))
    assert product.options == {"size": ["small", "large | tall"], "color": ["navy"]}
    assert (product.price_tag, product.query, product.rating) == ("$16.99 to $26.99", "rain jackets", "N.A.")
    assert 16.99 <= product.price <= 26.99
    assert product.attributes == ["taped seams", "wind proof"]
    assert {"harbor", "rain", "jacket", "hood"} == set(product.nouns)
    assert wishes == [Wish("Find me wind proof rain jackets", ["wind proof"])]
    assert product.document().endswith("taped seams  size: small, large | tall, and color: navy")


@pytest.mark.parametrize(
    ("pricing", "tag"),
    [("$1,234.50", "$1234.5"), ("", "$100.0"), (None, "$100.0"), ("$5 - $9", "$5.0 to $9.0"), ("free", "$100.0")],
)
def test_prices_are_read_in_all_their_forms(tmp_path: Path, pricing: Any, tag: str) -> None:
    ((product, _),) = load(write(tmp_path, item("B000000001", pricing=pricing)))
    assert product.price_tag == tag


def test_doubles_and_improper_numbers_are_left_out(tmp_path: Path) -> None:
    files = write(tmp_path, *map(item, ("B000000001", "B000000001", "nan", "B00000000123", "B000000002")))
    assert [product.asin for product, _ in load(files)] == ["B000000001", "B000000002"]
    assert len(load(files, first=1)) == 1


def test_what_is_missing_here_and_there_is_filled_in(tmp_path: Path) -> None:
    plain = item("B000000003", small_description="one text", customization_options="", full_description=None)
    ((product, wishes),) = load(write(tmp_path, plain))
    assert (product.bullets, product.options, product.description) == (["one text"], {}, "")
    assert product.attributes == ["DUMMY_ATTR"]
    assert wishes == []


def test_goals_are_one_for_each_combination(tmp_path: Path) -> None:
    files = write(tmp_path, item("B000000001"), item("B000000002"))
    env = WebShop({"file_path": files.items})  # the attributes lie beside it
    assert env._index.goal_count == 2
    texts = {env.reset(seed, mode).split(" [SEP] ")[2] for seed in range(2) for mode in ("val", "train")}
    said = "Find me wind proof rain jackets with color: navy, and size: "
    assert {text.removeprefix(said).split(",")[0] for text in texts} == {"small", "large | tall"}


def test_what_people_have_written_is_played(tmp_path: Path) -> None:
    files = write(tmp_path, item("B000000001"))
    env = WebShop({"file_path": files.items, "human_attr_path": files.human, "human_goals": True})
    assert "[SEP] i need a jacket, and price lower than " in env.reset(0)
    env.step("search[rain jacket]")
    env.step("click[b000000001]")
    env.step("click[navy]")
    assert env.step("click[buy now]")[1:3] == (1.0, True)


def document(asin: str, **changes: Any) -> str:
    """A line in the form of documents.jsonl."""
    row = item(asin, pricing=[16.99, 26.99])
    row |= {"Title": row["name"], "Attributes": ["wind proof"], "Price": "$16.99 to $26.99", "Rating": "N.A."}
    row |= {"Reviews": [{"title": "Dry", "stars": 5, "review": "I was."}], "options": {}, **changes}
    return json.dumps({"id": asin, "contents": "", "product": row})


def test_documents_make_their_own_goals_if_nobody_has(tmp_path: Path) -> None:
    path = tmp_path / "documents.jsonl"
    path.write_text("\n".join([document("B000000001"), "", document("B000000002", Attributes=[])]))
    env = WebShop({"file_path": str(path)})
    assert (env._index.product_count, env._index.goal_count) == (2, 2)
    assert "rain jackets: wind proof with color: navy" in env.reset(0)
    env.step("search[rain]")
    env.step("click[b000000001]")
    assert '"Dry" [SEP] 5 [SEP] I was.' in env.step("click[reviews]")[0]


def test_the_price_follows_from_the_seed_alone(tmp_path: Path) -> None:
    files = write(tmp_path, item("B000000001"), item("B000000002"))
    prices = [product.price for product, _ in load(files)]
    assert [product.price for product, _ in load(files, first=1)] == prices[:1]
    assert [product.price for product, _ in load(files, seed=1)] != prices


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "{", "a.jsonl cannot be read"),
        ("a.jsonl", '{"id": 1}', "a.jsonl cannot be read"),
        ("items_shuffle.json", "{}", "expected a list"),
        ("items_shuffle.json", '[{"asin": "B1"}]', "product 0"),
        ("items_shuffle.json", json.dumps([item("B1", pricing="$1.2.3")]), "product 0"),
        ("a.jsonl", "", "no goals"),
    ],
)
def test_what_is_not_of_that_form_is_told(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "ins.json").write_text("{}")
    with pytest.raises(BadInput, match=said):
        WebShop({"file_path": str(tmp_path / name), "attr_path": str(tmp_path / "ins.json")})


def test_attributes_that_are_no_mapping_are_told(tmp_path: Path) -> None:
    files = write(tmp_path, item("B000000001"))
    Path(files.attributes).write_text("[]")
    with pytest.raises(BadInput, match="expected a mapping"):
        WebShop({"file_path": files.items})
    with pytest.raises(BadInput, match="cannot be read"):
        WebShop({"file_path": files.items, "attr_path": str(tmp_path / "missing.json")})
