"""Reads the files of the original WebShop.

items_shuffle*.json ─┐  a list of products as they were collected
items_ins_v2*.json  ─┤  asin → attributes, and what to look for          ├──► Product, Wishes
items_human_ins.json ┘  asin → what people have written (if asked for)   │
documents*.jsonl ─────  a line per product, with all that has been made of it
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import BadInput
from paceline.worlds.text.webshop.catalogue import settle_price, wish_for
from paceline.worlds.text.webshop.goods import Dice, Product, Review, Wish

LONGEST_ASIN = 10
UNKNOWN_PRICE = 100.0  # what is asked for a product without a price
NO_ATTRIBUTE = "DUMMY_ATTR"  # what a product is, of which nothing is known

Row = Mapping[str, Any]

_WORDS = re.compile(r"[^\W\d_]{3,}")
_NOT_NOUNS = frozenset(
    _WORDS.findall(
        "and are but for from has have its made not off our out per set that the their them this with your you all any "
        "can new best very more most ultra super extra soft easy free high low large small medium long short black "
        "white red blue green pink brown grey gray great perfect good natural organic"
    )
)


class Files(NamedTuple):
    """Where the files are; empty where there is none."""

    items: str
    attributes: str = ""
    human: str = ""


def load_originals(
    files: Files, *, seed: int, first: int | None, human_goals: bool
) -> Iterator[tuple[Product, list[Wish]]]:
    """Gives the products of the files, each with what is wanted of it. Products without a proper number are left out.

    Args:
        files: The items or the documents; the others are needed as said above.
        seed: Decides the price of what has a range of prices.
        first: How many rows to read; None: all.
        human_goals: Whether to take what people have written, or what was put together from attributes.

    Raises:
        BadInput: a file is missing, or is not of the form that it should be.
    """
    attributes = _mapping(files.attributes)
    people = _mapping(files.human) if human_goals else {}
    seen = set()
    for number, row in enumerate(islice(_rows(files.items), first)):
        try:
            asin = str(row["asin"])
            if asin in seen or asin == "nan" or len(asin) > LONGEST_ASIN:
                continue
            seen.add(asin)
            known = {**row, **attributes.get(asin, {})}
            yield _product(row, known, Dice(seed, "price", asin)), list(_wishes(known, people.get(asin), human_goals))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{files.items}: product {number} is not of the original form: {error!r}") from error


def sibling_attributes(items: str) -> str:
    """Gives the attributes file that lies beside an items file under its usual name; empty if there is none."""
    path = Path(items)
    beside = path.with_name(path.name.replace("items_shuffle", "items_ins_v2"))
    return str(beside) if beside != path and beside.exists() else ""


def _rows(name: str) -> Iterator[Row]:
    try:
        with Path(name).open(encoding="utf-8") as file:
            if name.endswith(".jsonl"):
                yield from (json.loads(line)["product"] for line in file if line.strip())
                return
            rows = json.load(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{name} cannot be read as products: {error!r}") from error
    if not isinstance(rows, list):
        raise BadInput(f"{name} holds a {type(rows).__name__}; expected a list of products")
    yield from rows


def _mapping(name: str) -> dict[str, Any]:
    if not name:
        return {}
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{name} cannot be read: {error!r}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{name} holds a {type(found).__name__}; expected a mapping from product numbers")
    return found


def _product(row: Row, known: Row, dice: Dice) -> Product:
    bullets = row["small_description"] if "small_description" in row else row["BulletPoints"]
    price_tag, price = settle_price(_pricing(row.get("pricing")), dice)
    return Product(
        asin=str(row["asin"]).upper(),
        title=row["name"],
        description=row["full_description"] or "",
        bullets=bullets if isinstance(bullets, list) else [bullets],
        options=_options(row.get("customization_options")),
        attributes=known.get("attributes", known.get("Attributes", [NO_ATTRIBUTE])),
        reviews=[_review(review) for review in row.get("Reviews", [])],
        rating=str(row.get("Rating", "N.A.")),
        category=row["category"],
        query=row["query"].lower().strip(),
        product_category=row["product_category"],
        price_tag=price_tag,
        price=price,
        nouns=_nouns(row["name"]),
    )


def _pricing(said: Any) -> list[float]:
    """One figure or two: from "$16.99 - $26.99", or from a list where that has been done before."""
    if not said:
        return [UNKNOWN_PRICE]
    if isinstance(said, list):
        return [float(price) for price in said[:2]]
    return [float(re.sub(r"[^\d.]", "", price)) for price in said.split("$")[1:3]] or [UNKNOWN_PRICE]


def _options(said: Any) -> dict[str, list[str]]:
    """Option → values in small letters; a slash would part an address, so it is replaced."""
    if not said:
        return {}
    return {
        name.lower(): [content["value"].strip().replace("/", " | ").lower() for content in contents]
        for name, contents in said.items()
        if contents
    }


def _review(said: Row) -> Review:
    score = said.get("score", said.get("stars", 0))
    return Review(str(said.get("title", "")), float(score), str(said.get("body", said.get("review", ""))))


def _nouns(title: str) -> list[str]:
    """The words that may be nouns: no small ones, no numbers, no plain adjectives. A tagger would be more exact."""
    words = dict.fromkeys(word.lower() for word in _WORDS.findall(title))
    return [word for word in words if word not in _NOT_NOUNS]


def _wishes(known: Row, people: Any, human_goals: bool) -> Iterator[Wish]:
    if human_goals:
        for said in people or known.get("instructions") or ():
            if said["instruction_attributes"]:
                text = said["instruction"].strip(".")
                yield Wish(text, said["instruction_attributes"], said["instruction_options"])
    elif known.get("instruction_attributes"):
        yield Wish(known.get("instruction") or known["instruction_text"], known["instruction_attributes"])
    elif "attributes" not in known and known.get("Attributes"):  # documents alone: nobody has asked for anything yet
        yield wish_for(known["query"].lower().strip(), known["Attributes"][:3])
