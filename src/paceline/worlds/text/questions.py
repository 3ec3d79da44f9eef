"""Questions with a known answer, from the files that people have: MetaMath, GSM8K, and our own small one.

{"query": …, "response": "… The answer is: 72"}        MetaMathQA, and the questions that ship with Paceline
{"question": …, "answer": "… #### 72"}                 GSM8K
{"question": …, "answer": "72", "original_question"…}  MetaMath's questions turned backward
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from paceline.errors import BadInput
from paceline.worlds.text.datafiles import KINDS, Row, load

OWN = Path(__file__).with_name("questions.jsonl")
FIELDS = (("query", "response"), ("question", "answer"))
ENDINGS = ("The answer is:", "####")
HELD_OUT = 5  # of our own questions, every fifth is for tests

_NUMBER = re.compile(r"([-+]?)\$?((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?)(?:/([0-9]+))?", re.ASCII)
_LONGEST_NUMBER = 100


@dataclass(frozen=True)
class Question:
    """A question in words, and the answer that counts as right."""

    text: str
    answer: str


def read_questions(path: str | None, split: str) -> tuple[Question, ...]:
    """Gives the questions of a file.

    Args:
        path: A file; or a directory in which a file is named after the split; or None for our own questions.
        split: "train" or "test", say. One file is one split, and is read whole.

    Raises:
        BadInput: there is no such file or split, or a row is wrong.
    """
    if path is None:
        return _own(split)
    place = Path(path).expanduser()
    if place.is_dir():
        return load(_of_split(place, split), question)
    if not place.exists():
        raise BadInput(f"{path} is no file here, and nothing is downloaded: give the path of JSON lines or Parquet")
    return load(place, question)


def question(row: Row, where: str) -> Question:
    """Reads one row.

    Raises:
        BadInput: it has not the fields of any known shape, or its answer cannot be told.
    """
    for asked, answered in FIELDS:
        if asked in row and answered in row:
            text, solution = row[asked], row[answered]
            break
    else:
        wanted = " or ".join(" and ".join(fields) for fields in FIELDS)
        raise BadInput(f"{where}: there must be {wanted}; there is {', '.join(row) or 'nothing'}")
    if not (isinstance(text, str) and isinstance(solution, str) and text.strip()):
        raise BadInput(f"{where}: {asked} and {answered} must both be text")
    answer = final_answer(solution)
    if answer is None and answered == "answer" and "\n" not in solution.strip():
        answer = solution.strip()  # a bare answer, without the way to it
    if not answer:
        raise BadInput(f"{where}: {answered} must end in {' or '.join(map(repr, ENDINGS))} and an answer")
    return Question(text, answer)


def final_answer(solution: str) -> str | None:
    """What stands after the last "The answer is:" or "####"; None if there is neither."""
    for ending in ENDINGS:
        _, found, answer = solution.rpartition(ending)
        if found:
            return answer.strip()
    return None


def number(text: str) -> Fraction | None:
    """Reads a number as people write it: "1,000", "$18.0", "-3/4"; None if it is none."""
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= _LONGEST_NUMBER else None
    if found is None or not found[2] or (found[3] and not int(found[3])):
        return None
    value = Fraction(found[2].replace(",", "")) / int(found[3] or 1)
    return -value if found[1] == "-" else value


def _own(split: str) -> tuple[Question, ...]:
    if split not in ("train", "test"):
        raise BadInput(f"our own questions have no split {split!r}; they have train and test")
    everything = load(OWN, question)
    return tuple(item for place, item in enumerate(everything) if (place % HELD_OUT == 0) == (split == "test"))


def _of_split(directory: Path, split: str) -> Path:
    for kind in KINDS:
        if (directory / f"{split}{kind}").exists():
            return directory / f"{split}{kind}"
    raise BadInput(f"{directory} has no file {split}.jsonl, {split}.json or {split}.parquet")
