"""Learning to learn: a point finds a goal that it is not shown, and goes there at once in its second episode.

    python examples/rl2_point_robot.py --seeds 3                      # the picture of docs/meta.md
    python examples/rl2_point_robot.py --iterations 40 --workers 2    # a short look

Three agents learn on many goals, and are tried on 400 that they have not seen: `memory` (RL²) sees its own last actions
and rewards, `markov` only where it is, `oracle` also the goal. Beside them stand four lines: what random moves get, the
best that there is without a memory, a script with one, and who is shown the goal. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from paceline import MetaTraining, meta
from paceline.evaluate.statistics import summarize
from paceline.meta.references import NAMES
from paceline.report import draw_returns

AGENTS = ("memory", "markov", "oracle")


def main() -> None:
    """Trains the three agents, draws their curves, and prints what came of them."""
    asked = arguments()
    found = {agent: [learned(agent, seed, asked) for seed in range(1, asked.seeds + 1)] for agent in AGENTS}
    draw(found, asked.out)
    print(json.dumps({"picture": str(asked.out), "agents": {agent: told(found[agent]) for agent in AGENTS}}))


def arguments() -> argparse.Namespace:
    """What is asked on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="PointRobot-H20-v0", help="or PointRobotSparse-v0, which takes much longer")
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", default="auto", help="a number; 0: here; the figures are the same")
    parser.add_argument("--out", type=Path, default=Path("rl2_point_robot.png"))
    return parser.parse_args()


def learned(agent: str, seed: int, asked: argparse.Namespace) -> MetaTraining:
    """One agent that has learned."""
    plan = int(asked.workers) if asked.workers.isdecimal() else asked.workers
    training = meta(asked.env, agent, num_iters=asked.iterations, seed=seed, plan=plan)
    print(training, file=sys.stderr)
    return training


def draw(found: dict[str, list[MetaTraining]], path: Path) -> None:
    """Curves of the agents, means over seeds with 95 % intervals, and the lines."""
    curves, lines = {}, {}
    for agent, runs in found.items():
        steps = [each.env_steps for each in runs[0].evaluations]
        curves[agent] = steps, [[sum(each.episodes) for each in run.evaluations] for run in runs]
        if agent == "memory" and (known := runs[0].references) is not None:
            lines = {NAMES[name]: sum(means) for name, means in vars(known).items()}
    about = "return of both episodes of an unseen task"
    draw_returns(curves, lines, lambda row: summarize(row).ci, path, about)


def told(runs: list[MetaTraining]) -> dict[str, Any]:
    """An agent's results: by seed, and the mean of each episode."""
    rows = [run.return_eval_episodes for run in runs]
    return {
        "digests": [run.digest for run in runs],
        "return_eval_episodes": rows,
        "mean": [sum(column) / len(column) for column in zip(*rows, strict=True)],
        "env_steps": [run.env_steps for run in runs],
    }


if __name__ == "__main__":
    main()
