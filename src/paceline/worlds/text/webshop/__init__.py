"""WebShop in pure Python: the pages, goals and rewards of the original, over a catalogue and a search of our own."""

from paceline.worlds.text.webshop.config import WebShopConfig
from paceline.worlds.text.webshop.env import INSTRUCTION, WebShop

__all__ = ["INSTRUCTION", "WebShop", "WebShopConfig"]
