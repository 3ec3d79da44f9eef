"""The settings of the shop: the original's names, and ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from paceline.settings import Settings
from paceline.worlds.text.webshop.originals import Files, sibling_attributes
from paceline.worlds.text.webshop.stock import Source

SIZES = {"small": 1_000, "full": 10_000}


class WebShopConfig(Settings):
    """How a shop is set up. Without `file_path` it sells our own catalogue."""

    dataset: Literal["small", "full"] = Field("small", description="How large our own catalogue is: 1,000 or 10,000.")
    observation_mode: Literal["text", "text_rich", "html"] = Field("text", description="How a page is written down.")
    file_path: str = Field("", description="Original products: items_shuffle*.json or documents*.jsonl.")
    attr_path: str = Field("", description="Their attributes: items_ins_v2*.json. Found by itself beside the items.")
    human_attr_path: str = Field("", description="What people have written: items_human_ins.json.")
    server: None = Field(None, description="Always None: every process has a shop of its own.")
    filter_goals: Callable[[int, dict[str, Any]], bool] | None = Field(None, description="(number, goal) → keep it?")
    limit_goals: int = Field(-1, ge=-1, description="Keep so many goals, drawn by weight; -1: all.")
    num_products: int | None = Field(None, ge=1, description="Only the first so many products; None: all.")
    human_goals: bool = Field(False, description="Whether goals are what people have written. Needs original files.")
    show_attrs: bool = Field(False, description="Whether a product also has a page of attributes.")
    catalogue_seed: int = Field(0, ge=0, description="Of our own catalogue, and of prices and price limits.")
    products: int | None = Field(None, ge=1, le=200_000, description="Size of our own catalogue; None: by dataset.")
    strict: bool = Field(False, description="Whether an option must have exactly the value that was asked for.")

    @model_validator(mode="after")
    def _files_belong_together(self) -> Self:
        if not self.file_path and (self.attr_path or self.human_attr_path or self.human_goals):
            raise ValueError("attr_path, human_attr_path and human_goals are for original files; set file_path too")
        if self.file_path.endswith(".json") and not (self.attr_path or sibling_attributes(self.file_path)):
            raise ValueError(f"no items_ins_v2 file lies beside {self.file_path}; set attr_path")
        return self

    def source(self) -> Source:
        """Gives what decides the catalogue."""
        files = None
        if self.file_path:
            files = Files(self.file_path, self.attr_path or sibling_attributes(self.file_path), self.human_attr_path)
        return Source(
            seed=self.catalogue_seed,
            products=self.products or SIZES[self.dataset],
            first=self.num_products,
            human_goals=self.human_goals,
            files=files,
        )
