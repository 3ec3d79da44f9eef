"""Pages: what a shopper sees, as parts that are text or can be clicked; and the three ways to write a page down.

Beyond the original's pages, an item's page says which options have been clicked ("Chosen: size: large"), because
otherwise nobody could tell from a page alone what is left to do.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paceline.worlds.text.webshop.goods import Product, Review
from paceline.worlds.text.webshop.index import Listing

SEPARATOR = " [SEP] "
ACTIONS = "\nAvailable actions: "
SEARCH, BACK, PREVIOUS, NEXT, BUY = "Search", "Back to Search", "< Prev", "Next >", "Buy Now"
SECTIONS = ("Description", "Features", "Reviews", "Attributes")
CHOSEN = "Chosen: "
WINDOW = 10  # products on a page of results

CLICKABLE = (("button",), ("link",), ("option", "clicked"))  # in the order in which they are listed


class Part(NamedTuple):
    """A piece of a page.

    Attributes:
        text: What it says.
        kind: text, search (the bar), button, link (a product), option, or clicked (an option that is chosen).
    """

    text: str
    kind: str = "text"


Page = Sequence[Part]


def search_page(instruction: str) -> Page:
    """Where it begins: an instruction, and a bar to search by."""
    return [Part("WebShop"), *_told(instruction), Part(SEARCH, "search")]


def results_page(instruction: str, number: int, total: int, listings: Sequence[Listing]) -> Page:
    """A page of what was found. The one after the last is empty and leads back only."""
    page = [*_told(instruction), _button(BACK), Part(f"Page {number} (Total results: {total})")]
    page += [_button(PREVIOUS)] if number > 1 else []
    page += [_button(NEXT)] if listings else []
    for asin, title, tag in listings:
        page += [Part(asin, "link"), Part(title), Part(tag)]
    return page


def item_page(instruction: str, product: Product, chosen: Mapping[str, str], sections: Sequence[str]) -> Page:
    """A product: its options, its title and price, and what else there is to read."""
    page = [*_told(instruction), _button(BACK), _button(PREVIOUS)]
    for name, values in product.options.items():
        page += [Part(name), *(Part(v, "clicked" if chosen.get(name) == v else "option") for v in values)]
    if chosen:
        page.append(Part(CHOSEN + "; ".join(f"{name}: {value}" for name, value in chosen.items())))
    page += [Part(product.title), Part(f"Price: {product.price_tag}"), Part(f"Rating: {product.rating}")]
    return [*page, *map(_button, sections), _button(BUY)]


def section_page(instruction: str, product: Product, section: str) -> Page:
    """What there is to read about a product: its description, features, reviews or attributes."""
    return [*_told(instruction), _button(BACK), _button(PREVIOUS), *_section(product, section)]


def done_page(product: Product, chosen: Mapping[str, str], score: float) -> Page:
    """After the purchase."""
    bought = "; ".join([product.asin, *(f"{name}: {value}" for name, value in chosen.items())])
    return [Part("Thank you for your order!"), Part(bought), Part(f"Your score (0.0 to 1.0): {score:.3f}")]


def actions(page: Page) -> list[str]:
    """What can be done on a page, in the form of actions: buttons first, then products, then options."""
    found = ["search[<content>]"] if any(part.kind == "search" for part in page) else []
    return found + [f"click[{name}]" for name in clickables(page)]


def clickables(page: Page) -> list[str]:
    """The names that can be clicked on a page, in small letters."""
    found = [part.text.lower() for kinds in CLICKABLE for part in page if part.kind in kinds]
    return list(dict.fromkeys(found))


def write(page: Page, mode: str) -> str:
    """Writes a page down as text, text_rich or html."""
    if mode == "text":
        return SEPARATOR.join(part.text.strip() for part in page)
    return "\n".join(map(_rich if mode == "text_rich" else _html, page))


def _told(instruction: str) -> list[Part]:
    return [Part("Instruction:"), Part(instruction)]


def _button(text: str) -> Part:
    return Part(text, "button")


def _section(product: Product, section: str) -> list[Part]:
    if section == "Description":
        return [Part(product.description)]
    if section == "Features":
        return [Part(bullet) for bullet in product.bullets]
    if section == "Reviews":
        return [Part(text) for review in product.reviews for text in _said(review)]
    return [*map(Part, product.attributes), Part(product.category), Part(product.query), Part(product.product_category)]


def _said(review: Review) -> tuple[str, str, str]:
    return f'"{review.title}"', f"{review.score:g}", review.body


def _rich(part: Part) -> str:
    if part.kind == "clicked":
        return f"  [clicked button] {part.text} [clicked button_]"
    return part.text if part.kind == "text" else f"[button] {part.text} [button_]"


def _html(part: Part) -> str:
    text = html.escape(part.text)
    if part.kind == "search":
        return f'<input id="search_input"><button>{text}</button>'
    if part.kind in ("option", "clicked"):
        checked = " checked" if part.kind == "clicked" else ""
        return f'<label><input type="radio" value="{text}"{checked}>{text}</label>'
    tag = {"button": "button", "link": "a"}.get(part.kind, "p")
    return f"<{tag}>{text}</{tag}>"
