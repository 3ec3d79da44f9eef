"""A model in this process answers as a function of messages and seed; here it is tiny, and its weights are random."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from paceline.errors import BadInput
from paceline.policies.local_model import LocalModel
from paceline.roles import TextPolicy
from paceline.types import Turn

END = 256
ROOM = 256


class Bytes:
    """A tokenizer: a token is a byte, and 256 is the end."""

    eos_token_id = END
    chat_template: str | None = None

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return bytes(token for token in ids if token < END).decode("latin-1")


class Templated(Bytes):
    """The same, with a template that likes no system messages."""

    chat_template = "marks"

    def apply_chat_template(self, messages: list[Any], tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        assert add_generation_prompt
        if messages[0]["role"] == "system":
            raise RuntimeError("no system messages here")
        return "".join(f"[{message['role']}]{message['content']}" for message in messages) + "[assistant]"


@pytest.fixture(scope="module")
def model() -> Any:
    config = LlamaConfig(
        vocab_size=257,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=ROOM,
        initializer_range=0.6,  # so that it has opinions; the usual 0.02 says everything equally often
        bos_token_id=None,
        eos_token_id=END,
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # several would only wait for each other, with so little to do
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    yield model
    torch.set_num_threads(threads)


def turn(text: str = "go", seed: int = 1, role: str = "user") -> Turn:
    return Turn(0, 0, "T", "sokoban", 0, text, 5, ({"role": role, "content": text},), seed)


def policy(model: Any, tokenizer: Any = None, **options: Any) -> LocalModel:
    return LocalModel(model, tokenizer=tokenizer or Bytes(), max_new_tokens=12, **options)


def generators() -> list[Any]:
    return [random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()]


def test_it_is_a_policy_of_text(model: Any) -> None:
    assert isinstance(policy(model), TextPolicy)


def test_an_answer_follows_from_messages_and_seed(model: Any) -> None:
    one, other = policy(model), policy(model)
    first = one.answer(turn())
    one.answer(turn("something else", 9))
    assert one.answer(turn()) == first == other.answer(turn())
    assert one.answer(turn(seed=2)).text != first.text
    assert one.answer(turn("stop")).text != first.text


def test_several_threads_get_the_same_answers(model: Any) -> None:
    mind = policy(model)
    turns = [turn(f"state {number}", number) for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(mind.answer, turns)) == [mind.answer(each) for each in turns]


def test_no_global_generator_is_touched(model: Any) -> None:
    mind = policy(model)
    before = generators()
    mind.answer(turn())
    assert generators() == before


def test_greedy_is_the_likeliest_token_of_the_whole_conversation(model: Any) -> None:
    mind = policy(model, temperature=0, logprobs=True)
    reply = mind.answer(turn())
    assert mind.answer(turn(seed=99)) == reply
    told = torch.tensor([reply.extra["prompt_token_ids"] + reply.extra["token_ids"]])
    with torch.inference_mode():
        scores = model(told).logits[0, len(reply.extra["prompt_token_ids"]) - 1 : -1]
    assert scores.argmax(-1).tolist() == reply.extra["token_ids"]
    likely = scores.double().log_softmax(-1).max(-1).values
    assert reply.extra["token_logprobs"] == pytest.approx(likely.tolist(), abs=1e-4)


def test_a_very_low_temperature_is_greedy(model: Any) -> None:
    assert policy(model, temperature=1e-300).answer(turn()).text == policy(model, temperature=0).answer(turn()).text


def test_length_and_tokens_are_told(model: Any) -> None:
    reply = policy(model).answer(turn("four"))
    assert (reply.finish_reason, reply.completion_tokens) == ("length", 12)
    assert reply.prompt_tokens == len(b"user: four\nassistant:")


def test_an_end_is_a_stop_and_no_part_of_the_text() -> None:
    class Ender(torch.nn.Module):
        """Says A, then ends: with the token that only its generation config knows."""

        config = SimpleNamespace()
        generation_config = SimpleNamespace(eos_token_id=[END, 7])

        def forward(self, input_ids: Any, past_key_values: Any, **_: Any) -> Any:
            logits = torch.zeros(1, 1, 257)
            logits[0, 0, ord("A") if past_key_values is None else 7] = 50.0
            return SimpleNamespace(logits=logits, past_key_values=1)

    reply = policy(Ender()).answer(turn())
    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("A", "stop", 2)


def test_the_context_is_a_limit(model: Any) -> None:
    mind = policy(model)
    nearly = mind.answer(turn("x" * (ROOM - len("user: \nassistant:") - 3)))
    assert (nearly.finish_reason, nearly.completion_tokens) == ("length", 3)
    with pytest.raises(BadInput, match=r"turn 0 of environment 0 is 2\d\d tokens long.*room for 256"):
        mind.answer(turn("x" * ROOM))


def test_a_chat_template_is_used(model: Any) -> None:
    reply = policy(model, Templated(), logprobs=True).answer(turn("hi"))
    assert bytes(reply.extra["prompt_token_ids"]) == b"[user]hi[assistant]"
    with pytest.raises(BadInput, match="template refuses turn 0: no system messages here"):
        policy(model, Templated()).answer(turn(role="system"))


def test_half_a_surrogate_pair_is_no_reason_to_fail(model: Any) -> None:
    assert policy(model).answer(turn("a\ud800")).text == policy(model).answer(turn("a?")).text


@pytest.mark.parametrize(
    ("options", "match"),
    [({"temperature": -1.0}, "temperature"), ({"max_new_tokens": 0}, "max_new_tokens"), ({}, "tokenizer=")],
)
def test_mistakes_are_told(model: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(BadInput, match=match):
        LocalModel(model, **options)


def test_turns_that_cannot_be_answered(model: Any) -> None:
    with pytest.raises(BadInput, match="no messages"):
        policy(model).answer(Turn(0, 0, "T", "bandit", 0, "", 1))
    with pytest.raises(BadInput, match="shows pictures"):
        policy(model).answer(Turn(0, 0, "T", "sokoban", 0, "", 1, turn().messages, images=(np.zeros(3),)))


def test_scores_that_are_no_numbers_are_told(model: Any) -> None:
    class Broken(torch.nn.Module):
        config = SimpleNamespace()

        def forward(self, **_: Any) -> Any:
            return SimpleNamespace(logits=torch.full((1, 1, 257), float("nan")), past_key_values=1)

    with pytest.raises(FloatingPointError, match="not finite"):
        policy(Broken()).answer(turn())


def test_a_model_is_loaded_from_a_directory(model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    loaded = LocalModel(tmp_path, tokenizer=Bytes(), max_new_tokens=12)
    assert loaded.answer(turn()) == policy(model).answer(turn())
    with pytest.raises(BadInput, match=r"cannot load a model from .*nowhere"):
        LocalModel(str(tmp_path / "nowhere"))


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(BadInput, match=r"pip install 'paceline\[transformers\]'"):
        LocalModel("x")
