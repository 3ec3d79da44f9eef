"""The names of pomdp-baselines' parallel collection, as its users know them; played by pools and collectors of ours.

envs.py         make_env, make_parallel_env
manager.py      ParallelEnvManager: an env in each of several processes
remote.py       the lines to these envs
hosted.py       an env in its worker, and the messages that it answers
agents.py       AGENT_ARCHS, and the agent of a learner
storage.py      what a learner keeps of its rollouts
collectors.py   the collectors that play them
learner.py      Learner: envs, agent, storage, and the loop that collects and learns
"""

from paceline.adapters.pomdp_baselines.agents import AGENT_ARCHS, Agent
from paceline.adapters.pomdp_baselines.envs import make_env, make_parallel_env
from paceline.adapters.pomdp_baselines.learner import Learner, logger
from paceline.adapters.pomdp_baselines.manager import ParallelEnvManager
from paceline.adapters.pomdp_baselines.remote import Remote

__all__ = [
    "AGENT_ARCHS",
    "Agent",
    "Learner",
    "ParallelEnvManager",
    "Remote",
    "logger",
    "make_env",
    "make_parallel_env",
]
