"""Thirty-two agents behind an endpoint that is slow and fails at times: the same trajectories as on a good day.

    python examples/agents_online.py                                   # a test server plays the model
    python examples/agents_online.py http://127.0.0.1:8000/v1 MODEL    # your own endpoint

Needs `pip install 'paceline[llm]'`.
"""

import sys
import time

from paceline import Groups
from paceline.groups.driver import rollout
from paceline.policies.chat import ChatPolicy
from paceline.policies.expert_chat import ExpertChat
from paceline.testing import CALM, Faults, LlmServer

CONFIG = {
    "seed": {"train": 1},
    "agent_proxy": {"max_turn": 6, "max_actions_per_turn": 2},
    "es_manager": {
        "train": {
            "env_groups": 8,
            "group_size": 4,
            "env_configs": {"tags": ["SimpleSokoban", "Countdown"], "n_groups": [6, 2]},
        }
    },
}


def play(name: str, url: str, model: str) -> str:
    policy = ChatPolicy(model, base_url=url, temperature=0.0, concurrency=32)
    with Groups(CONFIG) as groups:
        groups.reset()
        begin = time.perf_counter()
        played = rollout(groups, policy, concurrency=32)
        seconds = time.perf_counter() - begin
    won = sum(state["metrics"][f"{state['tag']}/success"] for state in played.states)
    print(f"{name}: {won:.0f} of {len(played.states)} succeeded in {seconds:.1f} s,", end=" ")
    print(f"{played.usage.requests} answers, {played.usage.retries} retries, digest {played.digest[:12]}")
    return played.digest


if __name__ == "__main__":
    if len(sys.argv) == 3:
        play("your endpoint", *sys.argv[1:])
    else:
        digests = set()
        for name, faults in (("a good day", CALM), ("a bad day ", Faults())):
            with LlmServer(answer=ExpertChat(), faults=faults) as server:
                digests.add(play(name, server.url, "test-model"))
        print("the same trajectories" if len(digests) == 1 else "NOT the same")
