"""What a model is shown, and what is made of its answer.

trajectory ──► system: who you are, the task, symbols, actions
               user: Turn 1, its state, actions left, the form of an answer
               assistant: what was answered      user: the reward, then Turn 2 …
answer ──► parse ──► (answer as it is kept, actions)
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from typing import Any

from paceline.catalog.text_envs import Factory, explanation
from paceline.groups.config import Tag, Talk
from paceline.groups.trajectory import Trajectory

_TOKENS = ("<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>")
_THOUGHT_ENDS = re.compile(r"</think>\s*<answer>")
_TRY_AGAIN = "The last answer held no valid action, so nothing has changed. Please try again.\n"


def parse(text: str, talk: Talk) -> tuple[str, list[str]]:
    """Gives the answer as it goes into the conversation, and the actions in it; none if it is not in the form.

    Linear in the length of the text, whatever a model writes. An answer that needs no tidying is given back as it is,
    the very string: it may be long, and both are kept.
    """
    found = _thought_and_answer(text) if talk.enable_think else _answer(text)
    if found is None:
        return text, []
    thought, answer = (_without_tokens(part) for part in found)
    actions = [action.strip() for action in answer.split(talk.action_sep) if action.strip()]
    if len(actions) > talk.max_actions_per_turn:
        actions = actions[: talk.max_actions_per_turn]
        answer = f" {talk.action_sep} ".join(actions)
    thinking = f"<think>{thought}</think>" if talk.enable_think else ""
    tidy = f"{thinking}<answer>{answer}</answer>"
    return text if tidy == text else tidy, actions


def _thought_and_answer(text: str) -> tuple[str, str] | None:
    """The first <think>…</think> <answer>…</answer>. If a later part fits, so does an earlier one: no way back."""
    start = text.find("<think>")
    middle = _THOUGHT_ENDS.search(text, start + 7) if start >= 0 else None
    end = text.find("</answer>", middle.end()) if middle is not None else -1
    return None if middle is None or end < 0 else (text[start + 7 : middle.start()], text[middle.end() : end])


def _answer(text: str) -> tuple[str, str] | None:
    start = text.find("<answer>")
    end = text.find("</answer>", start + 8) if start >= 0 else -1
    return None if end < 0 else ("", text[start + 8 : end])


def _without_tokens(text: str) -> str:
    for token in _TOKENS:
        text = text.replace(token, "").strip()
    return text


class Prompter:
    """Writes the conversations of one tag."""

    def __init__(self, tag: Tag, factory: Factory, talk: Talk) -> None:
        self._tag, self._talk = tag, talk
        self._instruction, self._legend = explanation(factory)
        if tag.env_instruction is not None:
            self._instruction = tag.env_instruction
        options = tag.env_config or {}
        self._legend = options.get("grid_vocab") or self._legend
        self._drawn = options.get("observation_format", "grid") != "coord" and options.get("render_mode") != "rgb_array"

    @property
    def shows_all(self) -> bool:
        """Whether a model is shown the whole conversation at every turn."""
        return self._talk.context_window_mode == "full"

    def contexts(self, trajectory: Trajectory) -> list[list[dict[str, Any]]]:
        """What the model was shown at each turn that it answered."""
        return [self.messages(trajectory, until=number + 1) for number in range(len(_answered(trajectory)))]

    def messages(
        self, trajectory: Trajectory, *, whole: bool = False, until: int | None = None
    ) -> list[dict[str, Any]]:
        """The conversation so far, which ends with a question.

        Args:
            whole: As it was in the end: every turn that was answered, whatever `context_window_mode` says.
            until: As it was when there were so many turns.
        """
        turns = _answered(trajectory) if whole else trajectory.history[:until]
        talk, last = self._talk, len(turns) - 1
        first = 0 if whole or talk.context_window_mode == "full" else self._first(last)
        system = {"role": "system", "content": self._system(trajectory)}
        if talk.context_window_mode == "single_turn" and not whole:
            return [system, self._question_with_past(trajectory, first, last)]
        messages = [system]
        for number in range(first, last + 1):
            before = trajectory.history[number - 1] if number > first else None
            messages.append(_user(self._question(turns[number], number, before), turns[number]))
            if "llm_response" in turns[number] and (whole or number < last):
                messages.append({"role": "assistant", "content": turns[number]["llm_response"]})
        return messages

    def _first(self, last: int) -> int:
        window = self._talk.max_context_window
        return 0 if window is None or window < 0 else max(0, last - max(1, window) + 1)

    def _system(self, trajectory: Trajectory) -> str:
        parts = [f"You're a helpful assistant. {self._instruction}"]
        if self._legend and self._drawn:
            parts.append(
                "The symbols of the state mean:\n" + ", ".join(f"{sign}: {what}" for sign, what in self._legend.items())
            )
        if trajectory.names:
            parts.append(
                "Your available actions are:\n" + ", ".join(trajectory.names) + f"\nYou can make up to "
                f'{self._tag.max_actions_per_traj} actions, separated by " {self._talk.action_sep} "'
            )
        return "\n".join(parts)

    def _question(self, turn: Mapping[str, Any], number: int, before: Mapping[str, Any] | None) -> str:
        form = "<think> [Your thoughts] </think> " * self._talk.enable_think + "<answer> [your answer] </answer>"
        reward = "" if before is None else f"Reward:\n{before['reward']}\n\n"
        again = _TRY_AGAIN if turn.get("manager_invalid_action") else ""
        most = f" Max response length: {self._tag.max_tokens} words (tokens)." if self._tag.max_tokens else ""
        return (
            f"{reward}Turn {number + 1}:\nState:\n{turn['state']}\n{again}"
            f"You have {turn['actions_left']} actions left. Always output: {form} with no extra text, "
            f"strictly in this format.{most}\n"
        )

    def _question_with_past(self, trajectory: Trajectory, first: int, last: int) -> dict[str, Any]:
        """Everything in one message, for models that were trained on single turns."""
        past = []
        for number in range(first, last):
            turn = trajectory.history[number]
            past.append(f"Turn {number + 1}:\nState:\n{turn['state']}\nYou answered: {turn['llm_response']}\n")
            past.append(f"Reward:\n{turn['reward']}\n\n")
        turn = trajectory.history[last]
        return _user("".join(past) + self._question(turn, last, None), turn)


def _answered(trajectory: Trajectory) -> list[dict[str, Any]]:
    return [turn for turn in trajectory.history if "llm_response" in turn]


def _user(text: str, turn: Mapping[str, Any]) -> dict[str, Any]:
    images = turn.get("images", ())
    if not images:
        return {"role": "user", "content": text}
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


def _data_url(image: Any) -> str:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
