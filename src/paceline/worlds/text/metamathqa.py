"""MetaMathQA: a question in words; the answer counts, and a right one counts half as much with every try.

state    the question, then "Correct!" or "Incorrect. …"
action   the answer as text
reward   1 at the first try, 1/2 at the second, 1/4 …
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import AliasChoices, Field

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds.text.actions import Outcome, after_the_end
from paceline.worlds.text.questions import Question, final_answer, number, read_questions

INSTRUCTION = """\
You are given a mathematics problem in words. Work it out, and answer with the result alone, without units or sentences.
Example: <think>Each of 4 boxes holds 6 eggs, so there are 4 * 6 = 24 eggs.</think><answer>24</answer>
If an answer is wrong you may be asked again, but a later right answer is worth less."""

LONGEST = 1000  # characters of an answer that are read; a longer one is wrong


class MetaMathQAConfig(Settings):
    """Which questions are asked, and when an answer is right."""

    data_path: str | None = Field(
        None,
        validation_alias=AliasChoices("data_path", "dataset_path"),
        description="A file of questions, or a directory with one per split; none: the questions that come along.",
    )
    split: str = Field("train", description="Which file of a directory, or which part of our own questions.")
    max_steps: int | None = Field(None, ge=1, description="How many answers may be tried; none: no limit of its own.")
    match: Literal["text", "numeric", "strict"] = Field(
        "text",
        description="text: equal but for spaces and case. numeric: or the same number, so 1,000 is 1000.0, and what "
        "follows 'The answer is:' counts. strict: equal to the letter.",
    )


class MetaMathQA:
    """One question at a time.

    Attributes:
        correct_answer: The right answer; known after the reset.
    """

    Config = MetaMathQAConfig
    action_lookup: Mapping[int, str] | None = None

    def __init__(self, config: Mapping[str, Any] | MetaMathQAConfig | None = None) -> None:
        self.config = MetaMathQAConfig.read(config, "metamathqa")
        self._questions = read_questions(self.config.data_path, self.config.split)
        self._question: Question | None = None
        self._shown = ""
        self._tries = 0
        self._over = False
        self._success = False

    @property
    def correct_answer(self) -> str | None:
        """The right answer; None before the first reset."""
        return None if self._question is None else self._question.answer

    def reset(self, seed: int, mode: str = "train", *, layout: Any = None, dynamics: int | None = None) -> str:
        """Asks a question. It follows from the seed alone: nothing else is random here."""
        rng = np.random.default_rng(sequence(seed, "metamathqa", "layout"))
        self._question = self._questions[int(rng.integers(len(self._questions)))]
        self._shown = self._question.text
        self._tries, self._over, self._success = 0, False, False
        return self._shown

    def step(self, action: int | str) -> Outcome:
        """Judges an answer."""
        if self._question is None:
            raise BadInput("no question has been asked yet: call reset() before the first step")
        if self._over:
            return after_the_end(self._shown, self._success)
        said = str(action) if len(str(action)) <= LONGEST else ""
        self._success = self._is_right(said, self._question.answer)
        reward = math.ldexp(1.0, -self._tries) if self._success else 0.0
        self._tries += 1
        self._over = self._success or self._tries == self.config.max_steps
        self._shown = "Correct!" if self._success else "Incorrect. Think about it once more."
        valid = bool(said.strip())
        info = {"action_is_valid": valid, "action_is_effective": valid, "success": self._success}
        return self._shown, reward, self._over, info

    def render(self, mode: str | None = None) -> str:
        """What was shown last."""
        return self._shown

    def close(self) -> None:
        """Nothing to release: the questions are shared by the process."""

    def snapshot(self) -> Any:
        """Everything that an episode is."""
        return self._question, self._shown, self._tries, self._over, self._success

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._question, self._shown, self._tries, self._over, self._success = state

    def _is_right(self, said: str, answer: str) -> bool:
        if self.config.match == "strict":
            return said == answer
        if self.config.match == "numeric":
            said = final_answer(said) or said
            if (value := number(said)) is not None:
                return value == number(answer)
        return _plain(said) == _plain(answer)


def _plain(answer: str) -> str:
    return "".join(answer.split()).lower()
