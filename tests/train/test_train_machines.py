"""Learners on other machines read the rows that main has, and no bit depends on where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap

from waits import until_over

from paceline import Plan
from paceline.engine.workers.process.fork_client import environment
from paceline.train.given import mission_of, recipes_of
from paceline.train.job import Job
from paceline.train.placing import Places
from paceline.train.timetable import Timetable


def test_a_device_has_one_owner() -> None:
    """Learners are not divided over processes that would share a GPU, and agents act on the CPU, wherever they do."""
    world = mission_of("treasure_hunt,agents=3")
    recipes = recipes_of({"agent_0": "dqn", "agent_1": "dqn", "agent_2": "random"}, world, 0, "cuda")
    job = Job(world, recipes, Timetable(4, lag=1), device="cuda")
    for plan in (Plan("process", 2), Plan("auto", 2), Plan("auto"), Plan("inline")):
        places = Places(plan, job)
        assert [recipe.agents for recipe in places.learners] == [("agent_0", "agent_1")]
        assert {seat.device for recipe in places.learners for seat in recipe.seats} == {"cuda"}
        assert {seat.device for recipe in places.actors for seat in recipe.seats} == {"cpu"}
        assert places.workers == 1
    assert Places(Plan("process", 2), job).plan.why == "one process owns cuda"


def test_learners_on_two_machines_give_the_bits_of_inline() -> None:
    """Two raylets stand for two machines, on neither of which main is; a learner is killed, and rings wrap."""
    script = """
        import json, logging, os, threading
        from paceline import Plan, train
        from paceline.engine.transport import machine
        from paceline.engine.workers.ray import handle as backend
        import ray
        from ray.cluster_utils import Cluster

        common = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
        quick = {"worker_niceness": 0, "prestart_worker_first_driver": False}
        nodes = Cluster(initialize_head=True, head_node_args={**common, "_system_config": quick})
        nodes.add_node(**common)
        ray.init(address=nodes.address, logging_level=logging.ERROR, log_to_driver=False)
        machine.this_machine = lambda: ("another kernel", "pid:[1]")
        homes = set()

        def kill_one(progress):
            homes.update(worker.node for worker in backend._living)
            if progress.epoch == 5:
                os.kill(next(worker.pid for worker in backend._living), 9)

        def run(plan, watcher=None):
            mission, learners = "treasure_hunt,steps=20,agents=3", "dqn,hidden=16,batch=16"
            return train(mission, learners, epochs=8, lag=1, seed=13, capacity=50, plan=plan, watcher=watcher)

        far = run(Plan("ray", 2), kill_one)
        serving = [thread.name for thread in threading.enumerate() if thread.name == "paceline-arrays"]
        deaths = sum("rebuilding" in note for note in far.notes)
        print(json.dumps([far.digest, run("inline").digest, len(homes), deaths, serving]))
        ray.shutdown()
        nodes.shutdown()
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    token = {name: os.environ[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            env={**own, **token, **environment(), "RAY_TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        output, errors = until_over(process)
    assert process.returncode == 0, errors
    far, here, homes, deaths, serving = json.loads(output.splitlines()[-1])
    assert far == here
    assert (homes, deaths, serving) == (2, 1, [])
