"""Evaluate: scores policies on missions. The result is the same at any number of workers, after any crash.

Run ── survey ──► jobs ── spread over workers ──► play_episode ──► Episodes ──► Store, Report
"""

from paceline.evaluate.compare import Comparison, compare
from paceline.evaluate.driver import evaluate
from paceline.evaluate.report import Report, Score
from paceline.evaluate.reruns import rerun, unlike
from paceline.evaluate.run import Run
from paceline.evaluate.statistics import Summary

__all__ = ["Comparison", "Report", "Run", "Score", "Summary", "compare", "evaluate", "rerun", "unlike"]
