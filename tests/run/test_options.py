"""Options: what a signature allows is what every door takes."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

import paceline
from paceline.run import Count, Directory, Option, Options, Says, Seconds, Whole, checks_options, common_options


def job(
    what: Any,
    *,
    rounds: Count,
    seed: Whole = 0,
    share: float = 0.5,
    limit: Seconds | None = None,
    mode: Literal["fast", "slow"] = "fast",
    again: bool = False,
    out: Directory | None = None,
    trace: paceline.Trace | None = None,
    shares: Annotated[dict[str, float] | None, Says("a mapping from names to shares")] = None,
) -> dict[str, Any]:
    """Plays.

    Args:
        what: Is played.
        rounds: How many.
        seed: Root of everything
            random.
    """
    return {"rounds": rounds, "seed": seed, "out": out}


def test_options_are_read_from_the_signature_and_the_docstring():
    options = Options(job)
    assert [*options][:3] == ["what", "rounds", "seed"]
    assert options["seed"].default == 0
    assert options["seed"].meaning == "Root of everything random."
    assert options["rounds"].says == "a whole number, 1 or more"
    assert options["limit"].says == "a finite number of seconds above 0 or None"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rounds": 0}, "rounds=0; give a whole number, 1 or more"),
        ({"rounds": 2.5}, r"rounds=2\.5; give a whole number, 1 or more"),
        ({"rounds": True}, "rounds=True; give a whole number, 1 or more"),
        ({"rounds": "3"}, "rounds='3'; give a whole number, 1 or more"),
        ({"rounds": None}, "rounds=None; give a whole number, 1 or more"),
        ({"seed": -1}, "seed=-1; give a whole number, 0 or more"),
        ({"share": "much"}, "share='much'; give a number$"),
        ({"share": math.nan}, "share=nan; give a number$"),
        ({"limit": 0}, "limit=0; give a finite number of seconds above 0 or None"),
        ({"limit": math.inf}, "limit=inf; give a finite number of seconds above 0 or None"),
        ({"mode": "bogus"}, "mode='bogus'; give fast or slow"),
        ({"again": 1}, "again=1; give True or False"),
        ({"out": 3}, "out=3; give a directory or None"),
        ({"trace": "t.json"}, r"trace='t.json'; give a Trace\(\) or None"),
        ({"shares": {"a": "x"}}, "give a mapping from names to shares"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_wording(given: dict[str, Any], said: str):
    with pytest.raises(paceline.BadInput, match=said):
        checks_options(job)("it", **{"rounds": 1, **given})


def test_numbers_of_numpy_become_numbers_of_python(tmp_path: Path):
    found = checks_options(job)("it", rounds=np.int64(3), seed=np.uint8(7), share=np.float32(0.5), out=tmp_path)
    assert found == {"rounds": 3, "seed": 7, "out": tmp_path}
    assert type(found["rounds"]) is int


def test_what_may_be_anything_stays_what_it_is():
    """A number of NumPy's has another precision than Python's, and is a value of the user's there."""
    weights = np.float32(0.1)

    @checks_options
    def told(what: Any) -> Any:
        return what

    assert told(weights) is weights


def test_an_unknown_keyword_is_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'round'"):
        checks_options(job)("it", rounds=1, round=2)  # type: ignore[call-arg]


def test_a_file_takes_the_same_options(tmp_path: Path):
    options, file = Options(job, without=["trace"]), tmp_path / "a.yaml"
    file.write_text("rounds: 3\nmode: slow\nlimit:\n")
    assert options.read(file, "rounds") == {"rounds": 3, "mode": "slow"}
    for text, said in [
        ("rounds: 0", "rounds=0; give a whole number, 1 or more"),
        ("round: 3", "round is not known; did you mean rounds?"),
        ("trace: 3", "trace is not known; there are what, rounds"),
    ]:
        file.write_text(text)
        with pytest.raises(paceline.BadInput, match=f"{re.escape(str(file))}: {re.escape(said)}"):
            options.read(file, "rounds")


JOBS = [paceline.evaluate, paceline.train, paceline.meta, paceline.collect, paceline.Collector]
NOT_SAID = [None, True, -1, math.nan, "bogus", b"bytes", object()]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_options_of_every_job_are_declared_once(job: Any):
    """The kinds and meanings are those of `common_options`, word for word."""
    options, common = Options(job), Options(common_options)
    shared = [name for name in common if name in options]
    assert {"seed", "lanes", "device", "plan"} <= set(shared)
    for name in shared:
        assert (options[name].kind, options[name].meaning) == (common[name].kind, common[name].meaning)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_every_option_of_a_job_has_a_meaning_and_refuses_what_it_may_not_be(job: Any):
    for option in Options(job).values():
        assert option.meaning, option.name
        refused = [said for value in NOT_SAID if (said := complaint(option, value)) is not None]
        assert all(said.startswith(f"{option.name}=") and "<" not in said.partition("; give ")[2] for said in refused)


def complaint(option: Option, value: Any) -> str | None:
    """What an option says of a value that it refuses."""
    try:
        option.check(value)
    except paceline.BadInput as error:
        return str(error)
    return None
