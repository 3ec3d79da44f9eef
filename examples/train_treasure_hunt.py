"""Independent learners in one file: DQN and PPO on treasure hunt, several seeds, a picture with bands.

    python examples/train_treasure_hunt.py [--epochs 60] [--seeds 3] [--worlds 4] [--plan inline] [--plot hunt.png]

Four agents compete for gems. Each has its own network, optimizer and rows, and nothing else to learn from. The lines of
the random and of the greedy policy say what it is worth. Prints the result as JSON, with a digest for every run: the
same for every plan. Needs torch and matplotlib (pip install 'paceline[train,report]').
"""

import argparse
import json
import sys
import time

import numpy as np

import paceline

parser = argparse.ArgumentParser(description="Trains DQN and PPO on treasure hunt.")
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--worlds", type=int, default=4)
parser.add_argument("--plan", default="inline")
parser.add_argument("--plot", default="train_treasure_hunt.png", help="where the picture goes; '' draws none")

MISSION = "treasure_hunt"
LEARNERS = {"dqn": "#2171b5", "ppo": "#d94801"}
EPISODES = 20  # of the policies that do not learn


def scripted(policy: str) -> float:
    """What a policy that does not learn gets, per agent and episode."""
    report = paceline.evaluate(MISSION, policy, episodes=EPISODES, plan="inline")
    return float(np.mean([list(episode.rewards.values()) for episode in report.episodes]))


def trained(learner: str, seed: int, args: argparse.Namespace) -> tuple[np.ndarray, dict]:
    """One run: the mean reward of an agent in each epoch, and what there is to tell."""
    begin = time.process_time()
    training = paceline.train(MISSION, learner, epochs=args.epochs, worlds=args.worlds, seed=seed, plan=args.plan)
    curve = training.rewards.mean(1)
    seconds = time.process_time() - begin  # of this process; learners of other plans have their own
    print(f"{learner}, seed {seed}: {curve[-10:].mean():.2f} after {seconds:.0f} s of CPU", file=sys.stderr)
    return curve, {"seed": seed, "digest": training.digest, "reward": float(curve[-10:].mean()), "cpu": seconds}


def first_epoch(curves: np.ndarray, level: float) -> list[int | None]:
    """For each seed, the first epoch whose mean with the four before it reaches a level; None: there is none."""
    found = []
    for curve in curves:
        smooth = np.convolve(curve, np.ones(5) / 5, "valid")
        reached = np.flatnonzero(smooth >= level)
        found.append(int(reached[0]) + 4 if len(reached) else None)
    return found


def draw(path: str, curves: dict[str, np.ndarray], lines: dict[str, float]) -> None:
    """The means over seeds, with a band from the lowest to the highest."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, runs in curves.items():
        epochs = np.arange(runs.shape[1])
        axes.fill_between(epochs, runs.min(0), runs.max(0), color=LEARNERS[name], alpha=0.2, linewidth=0)
        axes.plot(epochs, runs.mean(0), color=LEARNERS[name], label=f"{name}, {len(runs)} seeds")
    for (name, value), style in zip(lines.items(), (":", "--"), strict=True):
        axes.axhline(value, color="#555555", linestyle=style, linewidth=1, label=f"{name}, {value:.1f}")
    axes.set(xlabel="epoch", ylabel="reward per agent", title="treasure hunt, four independent learners")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    args = parser.parse_args()
    if args.plot:
        import matplotlib  # noqa: F401 - what is missing should be said before anything is trained
    lines = {policy: scripted(policy) for policy in ("random", "greedy")}
    curves, result = {}, {"mission": MISSION, "epochs": args.epochs, "worlds": args.worlds, **lines, "learners": {}}
    for learner in LEARNERS:
        runs = [trained(learner, seed, args) for seed in range(args.seeds)]
        curves[learner] = np.stack([curve for curve, _ in runs])
        thrice = first_epoch(curves[learner], 3 * lines["random"])
        result["learners"][learner] = {"runs": [told for _, told in runs], "epoch_of_3x_random": thrice}
    if args.plot:
        draw(args.plot, curves, lines)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
