"""Random search on CartPole, three times over: here, on workers, and with a worker killed in the middle.

Each try draws a linear policy and plays five episodes with it. The three runs must end in the same digest; the second
should take less time than the first. Run it with: python examples/search.py [--tries 600]
"""

import argparse
import os
import time

import gymnasium as gym
import numpy as np

import paceline

EPISODES = 5


def play(number: int) -> tuple[float, list[float]]:
    """One try: everything in it follows from its number, nothing from where or when it runs."""
    rng = np.random.default_rng(paceline.seed_of(0, "try", number))
    weights = rng.normal(size=4)
    env = gym.make("CartPole-v1")
    total = 0.0
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=episode)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(int(weights @ obs > 0))
            total += float(reward)
            over = terminated or truncated
    env.close()
    return total / EPISODES, weights.tolist()


def search(tries: int, backend: str, workers: int, *, kill: bool = False) -> list[tuple[float, list[float]]]:
    with paceline.Pool([], backend=backend, workers=workers) as pool:
        results: dict[int, paceline.Outcome] = {}
        for number, outcome in pool.stream(play, range(tries)):
            results[number] = outcome
            if kill and len(results) == tries // 2:
                os.kill(pool.workers[0].pid, 9)
    return [results[number].answer for number in range(tries)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=600)
    tries = parser.parse_args().tries
    workers = max(2, paceline.Budget.of_machine().slots)
    runs = [("here, one after another", "inline", 1, False)]
    runs += [(f"{workers} processes", "process", workers, False)]
    runs += [(f"{workers} processes, one killed in the middle", "process", workers, True)]
    digests = set()
    for name, backend, count, kill in runs:
        start = time.perf_counter()
        scores = search(tries, backend, count, kill=kill)
        seconds = time.perf_counter() - start
        digests.add(paceline.digest(scores))
        best = max(score for score, _ in scores)
        print(f"{name:45} {seconds:6.2f} s   best {best:5.1f}   digest {paceline.digest(scores)[:16]}")
    print("the same result, three times" if len(digests) == 1 else "NOT the same: this is a bug, please report it")


if __name__ == "__main__":
    main()
