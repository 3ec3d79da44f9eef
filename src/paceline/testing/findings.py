"""What an examination found: a name, a verdict, a sentence and its numbers, each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from paceline.lasting import Lasting

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        name: A short word for the question.
        verdict: "ok", "warning" (it works, and costs something) or "problem".
        sentence: The answer in plain words.
        numbers: What was measured.
        advice: What to do about it; empty if there is nothing to do.
    """

    name: str
    verdict: Verdict
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.verdict:<7}  {self.name}: {' '.join(filter(None, (self.sentence, self.advice)))}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def lasting_findings(look_at: Callable[[Lasting], None]) -> list[Finding]:
    """A warning for each thing that belongs to the process and changes in play.

    Args:
        look_at: Plays several times, and has what is given look before and after.
    """
    watch = Lasting()
    look_at(watch)
    return [Finding("lasting", "warning", f"{text}.") for text in watch.news()]


@dataclass(frozen=True)
class Report:
    """What was found out about one subject.

    Attributes:
        subject: What was looked at.
        findings: The answers, in the order of the questions.
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that are problems."""
        return tuple(finding for finding in self.findings if finding.verdict == "problem")

    def __getitem__(self, name: str) -> Finding:
        """The finding of that name."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(finding.name == name for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join([f"{self.subject}:", *(f"  {finding}" for finding in self.findings)])

    def raise_for_problems(self) -> None:
        """Raises an AssertionError that lists the problems, if there are any."""
        if self.problems:
            count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
            raise AssertionError("\n".join([f"{self.subject} has {count}:", *(f"  {p}" for p in self.problems)]))
