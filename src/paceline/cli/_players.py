"""Who plays a rollout: a scripted policy, one of the user's own, or a model behind an endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import BadInput

if TYPE_CHECKING:
    from paceline.groups import Groups
    from paceline.groups.config import GroupsConfig

_TEMPERATURE, _MAX_TOKENS = 1.0, 400


@dataclass(frozen=True)
class Endpoint:
    """A model behind an endpoint, and how it is sampled; None: not given."""

    model: str | None
    base_url: str | None
    api_key_env: str | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None

    def sampled(self) -> dict[str, Any]:
        """What an answer follows from, besides the question and its seed."""
        said = {
            "model": self.model,
            "temperature": _TEMPERATURE if self.temperature is None else self.temperature,
            "max_tokens": _MAX_TOKENS if self.max_tokens is None else self.max_tokens,
        }
        return said if self.top_p is None else {**said, "top_p": self.top_p}

    def given(self) -> list[str]:
        """The options that were given."""
        return [
            f"--{option.name.replace('_', '-')}" for option in fields(self) if getattr(self, option.name) is not None
        ]

    def policy(self, concurrency: int) -> Any:
        """What asks the model."""
        from paceline.policies.chat import ChatPolicy

        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise BadInput(f"--top-p {self.top_p:g}: give a share of the probability, above 0 and up to 1")
        sampled = self.sampled()
        return ChatPolicy(
            sampled["model"],
            base_url=self.base_url,
            api_key=self._key(),
            temperature=sampled["temperature"],
            max_tokens=sampled["max_tokens"],
            concurrency=concurrency,
            extra=None if self.top_p is None else {"top_p": self.top_p},
        )

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:  # what was given is not repeated: it may be the key itself
            raise BadInput(
                "--api-key-env names an environment variable that is not set, or is empty; give the variable's name, "
                "never the key: a command line is there for everybody to read"
            )
        return key


@dataclass(frozen=True)
class Player:
    """Who plays: a policy by what the user writes, or an endpoint."""

    policy: str | None
    endpoint: Endpoint

    def identity(self) -> Any:
        """What must be the same for a run to be continued."""
        from paceline.catalog.text_policies import plainly_named

        return self.endpoint.sampled() if self.policy is None else plainly_named(self.policy)

    def files(self, found: Any) -> Iterator[Path]:
        """The files of what `find` has given: what was written by the user, and weights."""
        from paceline.catalog.words import with_keywords
        from paceline.sources import files_of, weights_in

        if self.policy is not None:
            yield from files_of(found)
            yield from weights_in(with_keywords(self.policy)[2])

    def check_can_play(self, config: GroupsConfig) -> None:
        """Raises `BadInput` if it is known before anything is started that somebody cannot be played."""
        from paceline.catalog.text_policies import check_can_play

        if self.policy is not None:
            check_can_play(self.policy, {tag: config.tags[tag].env_type for tag, count in config.shares if count})

    def find(self, groups: Groups, concurrency: int) -> Any:
        """Gives it.

        Raises:
            BadInput: nobody is named, or two are; or who is named cannot be had.
        """
        from paceline.catalog.text_policies import FORMS, find_text_policy

        given = self.endpoint.given()
        if (self.policy is None) == (self.endpoint.model is None):
            raise BadInput(f"say who plays: --policy ({FORMS}), or --model (with --base-url), and not both")
        if self.policy is None:
            return self.endpoint.policy(concurrency)
        if given:
            raise BadInput(f"{given[0]} belongs to --model; --policy needs no endpoint")
        talk = groups.config.talk
        options = {name: tag.env_config for name, tag in groups.config.tags.items()}
        return find_text_policy(
            self.policy, actions=talk.max_actions_per_turn, separator=talk.action_sep, options=options
        )
