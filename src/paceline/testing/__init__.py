"""Checks for your own envs, policies and jobs: do they keep their promises in parallel, and when workers die?

same_everywhere                      a job gives the same digest on every backend
check_env, check_policy              an env or a policy keeps to its API and is a function of its seed
check_independence                   learners do not change by what another agent has seen
kill_worker_at, hang_at, raise_at    a recipe whose member goes wrong at a chosen call
LlmServer, Faults                    a real endpoint that speaks the OpenAI protocol, and fails as you like
"""

from paceline.testing.envs import check_env
from paceline.testing.faults import hang_at, kill_worker_at, raise_at
from paceline.testing.findings import Finding, Report
from paceline.testing.independence import check_independence
from paceline.testing.llm_faults import CALM, Faults
from paceline.testing.llm_server import LlmServer, Traffic
from paceline.testing.policies import check_policy
from paceline.testing.same import PLACES, same_everywhere

__all__ = [
    "CALM",
    "PLACES",
    "Faults",
    "Finding",
    "LlmServer",
    "Report",
    "Traffic",
    "check_env",
    "check_independence",
    "check_policy",
    "hang_at",
    "kill_worker_at",
    "raise_at",
    "same_everywhere",
]
