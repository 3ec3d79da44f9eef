"""A policy that runs a language model in this process, with transformers: no endpoint, no server.

    turn ──► messages ── chat template ──► tokens ──► forward ──► a draw ──► token ──► … ──► Reply
                                                         ▲                     │
                                                         └──── one more ◄──────┘

Each token is drawn here, with a generator that follows from the turn's seed; no process-wide generator is touched.
Turns go through the model one at a time, each a batch of its own: in a larger batch the last bits of a row depend on
the others, and now and then a token with them. For throughput, serve the model and use `ChatPolicy`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.policies.chat_exchange import valid
from paceline.seeds import sequence
from paceline.types import Reply, Turn

__all__ = ["LocalModel"]

_LOW_63 = (1 << 63) - 1

Array = np.ndarray[Any, Any]


class LocalModel:
    """Answers turns with a causal language model; an answer is a function of the messages and the turn's seed.

    That holds for one machine: another device, another version of torch or another number of its threads may round
    another way. `answer` is a plain function, and safe to call from several threads: the model hears one at a time.

    Args:
        model: A directory or a name that transformers can load, or a model that is loaded already.
        tokenizer: For a model that is loaded already, its tokenizer: what has `encode(text, add_special_tokens=…)`,
            `decode(ids, skip_special_tokens=…)` and `eos_token_id`, and a `chat_template` if it has one.
        device: Where the model runs, as torch names it.
        max_new_tokens: The most tokens of an answer.
        temperature: For sampling; 0: always the likeliest token.
        logprobs: Whether a reply's `extra` has `token_ids`, `token_logprobs` and `prompt_token_ids`.
        trust: Whether code that comes with the model may be run.

    Raises:
        BadInput: an argument makes no sense, the model cannot be loaded, or transformers is not installed.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        device: str = "cpu",
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        logprobs: bool = False,
        trust: bool = False,
    ) -> None:
        if max_new_tokens < 1 or not 0 <= temperature < math.inf:
            raise BadInput(
                f"max_new_tokens is {max_new_tokens} and temperature is {temperature}; "
                "give at least one token, and a temperature of 0 or more"
            )
        self._torch, transformers = _import_transformers()
        if isinstance(model, str | PathLike):
            model, tokenizer = _load(transformers, model, tokenizer, trust)
        elif tokenizer is None:
            raise BadInput("a model that is loaded already needs its tokenizer: give tokenizer=…")
        self._model, self._tokenizer = model.to(device).eval(), tokenizer
        self._device, self._temperature, self._logprobs = device, temperature, logprobs
        self._most_new = max_new_tokens
        self._room = getattr(model.config, "max_position_embeddings", None) or math.inf
        self._ends = _ends(model, tokenizer)
        self._lock = threading.Lock()

    def answer(self, turn: Turn) -> Reply:
        """Lets the model speak until it ends, or may say no more.

        Raises:
            BadInput: the turn has no messages, the model has no room for them, or its template refuses them.
        """
        prompt = self._prompt(turn)
        if len(prompt) >= self._room:
            raise BadInput(
                f"turn {turn.number} of environment {turn.env_id} is {len(prompt)} tokens long, and the model has room "
                f"for {self._room}; let fewer turns be shown"
            )
        rng = np.random.default_rng(sequence(turn.seed & _LOW_63, "sample"))
        with self._lock, self._torch.inference_mode():
            said, likely, ended = self._speak(prompt, rng)
        extra = {"token_ids": said, "prompt_token_ids": prompt, "token_logprobs": likely} if self._logprobs else {}
        text = self._tokenizer.decode(said[:-1] if ended else said, skip_special_tokens=True)
        return Reply(text, "stop" if ended else "length", len(prompt), len(said), extra=extra)

    def _prompt(self, turn: Turn) -> list[int]:
        if not turn.messages:
            raise BadInput(f"turn {turn.number} of environment {turn.env_id} has no messages; a model needs some")
        if turn.images:
            raise BadInput(
                f"environment {turn.env_id} ({turn.env_type}) shows pictures, and LocalModel reads text only"
            )
        messages = [{**message, "content": valid(str(message["content"] or ""))} for message in turn.messages]
        if getattr(self._tokenizer, "chat_template", None) is None:
            return list(self._tokenizer.encode(_joined(messages), add_special_tokens=True))
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template raises what it likes
            raise BadInput(f"the model's chat template refuses turn {turn.number}: {error}") from error
        # The template has set the special tokens already.
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def _speak(self, prompt: Sequence[int], rng: np.random.Generator) -> tuple[list[int], list[float], bool]:
        """Gives the tokens, how likely each was, and whether the last of them is an end."""
        said: list[int] = []
        likely: list[float] = []
        fresh, past = prompt, None
        while len(said) < self._most_new and len(prompt) + len(said) < self._room:
            scores, past = self._forward(fresh, len(prompt) + len(said), past)
            token, chance = self._draw(scores, rng)
            said.append(token)
            likely.append(chance)
            if token in self._ends:
                return said, likely, True
            fresh = [token]
        return said, likely, False

    def _forward(self, fresh: Sequence[int], length: int, past: Any) -> tuple[Array, Any]:
        """Reads the tokens that are new; gives the scores of the next one, and what the model remembers."""
        ids = self._torch.tensor([list(fresh)], device=self._device)
        mask = self._torch.ones((1, length), dtype=self._torch.long, device=self._device)
        out = self._model(input_ids=ids, attention_mask=mask, past_key_values=past, use_cache=True)
        return out.logits[0, -1].float().cpu().double().numpy(), out.past_key_values

    def _draw(self, scores: Array, rng: np.random.Generator) -> tuple[int, float]:
        best = int(scores.argmax())
        if not np.isfinite(scores[best]):
            raise FloatingPointError(f"the model's scores are not finite: the best of them is {scores[best]}")
        with np.errstate(over="ignore"):  # at a very low temperature all but the best are out of reach, rightly
            weights = np.exp((scores - scores[best]) / (self._temperature or 1.0))
        token = _chosen(weights, rng) if self._temperature else best
        return token, float(np.log(weights[token] / weights.sum()))


def _chosen(weights: Array, rng: np.random.Generator) -> int:
    edges = weights.cumsum()
    token = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
    return min(token, int(weights.nonzero()[0][-1]))  # rounding must not lead past the last that can be said


def _import_transformers() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BadInput("LocalModel needs torch and transformers: pip install 'paceline[transformers]'") from error
    return torch, transformers


def _load(transformers: Any, path: str | PathLike[str], tokenizer: Any, trust: bool) -> tuple[Any, Any]:
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, trust_remote_code=trust)
        if tokenizer is None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=trust)
    except (OSError, ValueError, ImportError) as error:
        raise BadInput(f"cannot load a model from {str(path)!r}: {error}") from error
    return model, tokenizer


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer: a model that was taught to chat often has one more than its tokenizer names."""
    holders = (tokenizer, getattr(model, "generation_config", None))
    known = [getattr(holder, "eos_token_id", None) for holder in holders]
    return frozenset(one for each in known if each is not None for one in (each if isinstance(each, list) else [each]))


def _joined(messages: Sequence[Mapping[str, Any]]) -> str:
    """The conversation as plain text, for a tokenizer without a template."""
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant:"
