"""Real missions of mettagrid: the result of upstream's own sequential runner, at any number of workers."""

import json
import os
import random
import re
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import cogs
import numpy as np
import pytest
from mettagrid.config.mettagrid_config import MettaGridConfig
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.policy.policy_spec import PolicySpec
from mettagrid.runner.rollout import run_multi_episode_rollout
from mettagrid.simulator import Simulator
from mettagrid.types import Action

from paceline import BadInput, PacelineError, Plan, Report, evaluate
from paceline.adapters.mettagrid import MettaGridWorld, multi_episode_rollout
from paceline.adapters.mettagrid import missions as mettagrid
from paceline.adapters.mettagrid.builders import BUILDERS, empty_room, machina_1, market
from paceline.adapters.mettagrid.short_names import short_names
from paceline.adapters.mettagrid.summary import summary
from paceline.adapters.mettagrid.tokens import ActionTable, Reader, read
from paceline.catalog import find_missions, find_policies
from paceline.engine import WORKER_BYTES, Budget
from paceline.evaluate.replacement import mixed, replacements
from paceline.evaluate.run import Job, Run
from paceline.evaluate.spread import by_episode, waves
from paceline.team import MODES, Player
from paceline.types import Mission

WALKER, TEAM, RECURRENT = "class=cogs.Walker", "class=cogs.Team", "class=cogs.Recurrent"


def run_python(program: str, cwd: Path | None = None) -> str:
    """What a program prints, in a process of its own that finds the policies of the tests."""
    places = [str(cwd) if cwd is not None else "", str(Path(cogs.__file__).parent)]
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
        timeout=100,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def mission(name: str = "empty_room", seats: int = 4, steps: int = 200, **more: Any) -> Mission:
    (found,) = find_missions([f"mettagrid:{name}"], agents=seats, steps=steps, **more)
    return found


def config_of(found: Mission) -> MettaGridConfig:
    config: MettaGridConfig = found.make.config  # type: ignore[attr-defined]
    return config


# -- upstream's runner ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "seats", "first", "second"),
    [
        ("empty_room", 4, "cogs.Walker", "noop"),
        ("arena", 6, "cogs.Walker", "cogs.Team"),
        ("market", 16, "cogs.Team", "cogs.Counted"),
        ("caves", 5, "noop", "cogs.Counted"),
        ("navigation", 8, "cogs.Team", "cogs.Walker"),
    ],
)
def test_everything_is_what_upstreams_sequential_runner_gives(name: str, seats: int, first: str, second: str) -> None:
    """Seats, rewards, steps, stats of agents and game, and averages over time, in mixed seats."""
    found = mission(name, seats)
    report = evaluate(found, [f"class={first},proportion=3", f"class={second}"], episodes=3, seed=7, plan=0)
    names = [policy["name"] for policy in report.identity["policies"]]
    counts = Counter(report.episodes[0].seats.values())
    theirs, _ = run_multi_episode_rollout(
        policy_specs=[PolicySpec(class_path=first), PolicySpec(class_path=second)],
        assignments=[0] * counts[names[0]] + [1] * counts[names[1]],
        env_cfg=config_of(found),
        episodes=3,
        seed=7,
        max_action_time_ms=60_000,
    )
    for ours, upstream in zip(report.episodes, theirs.episodes, strict=True):
        assert [names.index(policy) for policy in ours.seats.values()] == upstream.assignments
        assert list(ours.rewards.values()) == upstream.rewards
        assert ours.steps == upstream.steps
        assert list(ours.stats.values()) == upstream.stats["agent"]
        assert ours.game_stats == upstream.stats["game"]
        assert ours.time_averaged_game_stats == upstream.time_averaged_game_stats


@pytest.mark.parametrize("jobs", [0, 2])
def test_upstreams_signature_gives_upstreams_result(jobs: int) -> None:
    asked: dict[str, Any] = {
        "policy_specs": [PolicySpec(class_path="cogs.Walker"), PolicySpec(class_path="noop")],
        "assignments": [0, 1, 0, 0],
        "env_cfg": config_of(mission(steps=60)),
        "episodes": 5,
        "seed": 3,
        "max_action_time_ms": 60_000,
    }
    seen: list[int] = []
    ours, _ = multi_episode_rollout(**asked, jobs=jobs, on_progress=lambda index, _: seen.append(index))
    assert ours == run_multi_episode_rollout(**asked)[0]
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_a_failed_episode_of_that_call_is_named(tmp_path: Path) -> None:
    spec = PolicySpec(class_path="cogs.Faulty", init_kwargs={"kind": "raise", "marker": str(tmp_path / "marker")})
    with pytest.raises(PacelineError, match=r"step 5, policy '0:Faulty' of agent_1: RuntimeError: out of ideas"):
        multi_episode_rollout(
            policy_specs=[spec], assignments=[0, 0], env_cfg=config_of(mission(seats=2)), episodes=2, seed=0
        )


# -- one digest ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone() -> dict[str, str]:
    """Policy → the digest of playing here, one after another."""
    return {}


MIX = [f"{WALKER},proportion=2", "random", f"{TEAM},name=team", f"{RECURRENT},proportion=2"]


@pytest.mark.parametrize(
    ("plan", "agents"),
    [(1, "off"), (2, "off"), (4, "off"), *((0, mode) for mode in MODES if mode != "off"), (2, "process")],
)
def test_one_digest_at_any_number_of_workers_and_wherever_agents_run(
    alone: dict[str, str], plan: int, agents: str
) -> None:
    """Random, scripted with state, sharing state, and a recurrent network with a generator of torch's own."""
    found = mission("market", 12, 200)
    if "mix" not in alone:
        alone["mix"] = evaluate(found, MIX, episodes=3, seed=5, plan=0, agents="off").digest
    report = evaluate(found, MIX, episodes=3, seed=5, plan=plan, agents=agents)
    assert not report.failures
    assert report.digest == alone["mix"]


@pytest.mark.parametrize(("plan", "memory", "many"), [(0, 2**34, 4), (1, 2**34, 4), (0, 3 * WORKER_BYTES, 3)])
def test_agents_that_share_nothing_have_a_place_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: int, memory: int, many: int
) -> None:
    """As many places as the budget has slots and memory for, and the same in every episode; the policies in them are
    new."""
    monkeypatch.setattr("paceline.engine.planning.budget._current", Budget(slots=4, memory=memory))
    spec = f"class=cogs.Sighted,name=Walker,kw.log={tmp_path / 'log'}"
    report = evaluate(mission(seats=4, steps=4), spec, episodes=3, plan=plan, agents="process")
    assert not report.failures
    assert report.notes == []
    assert report.digest == evaluate(mission(seats=4, steps=4), WALKER, episodes=3, plan=0, agents="off").digest
    seen = Counter(tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines())
    agents, places = zip(*seen, strict=True)
    assert set(agents) == set("0123")
    assert str(os.getpid()) not in places
    assert len(set(places)) == many


@pytest.mark.parametrize(
    ("spec", "shared"),
    [
        (TEAM, "a list"),
        ("class=cogs.Noticed", r"a list \('board' of class NoticedAgent\)"),
        ("class=cogs.Ranked", "a policy that makes each by what it has made"),
    ],
)
def test_agents_that_share_something_stay_together_which_is_said(spec: str, shared: str) -> None:
    found = mission(seats=3, steps=20)
    here = evaluate(found, spec, plan=0, agents="off")
    there = evaluate(found, spec, plan=0, agents="process")
    assert (there.digest, here.notes) == (here.digest, [])
    (note,) = there.notes
    assert re.match(rf"3 agents of policy '\w+' share {shared}.* they stay in one place", note)
    assert evaluate(found, f"{spec},together=true", plan=0, agents="process").digest == here.digest
    if spec == TEAM:
        assert evaluate(found, f"{spec},together=false", plan=0, agents="process").notes == []


@pytest.mark.parametrize(("plan", "agents"), [(0, "off"), (1, "off"), (0, "process"), (0, "thread")])
def test_a_policy_that_is_given_plays_as_its_class_does(plan: int, agents: str) -> None:
    """Every episode has a copy, as it was when it was given."""
    found = mission(seats=3, steps=12)
    given = cogs.Team(PolicyEnvInterface.from_mg_cfg(config_of(found)))
    report = evaluate(found, [given, cogs.Walker], episodes=2, plan=plan, agents=agents)
    assert report.digest == evaluate(found, [cogs.Team, cogs.Walker], episodes=2, plan=0, agents="off").digest
    assert given._board == []
    given._board += [1, 2, 3]
    assert evaluate(found, [given, cogs.Walker], episodes=2, plan=plan, agents=agents).digest != report.digest


def test_a_policy_that_is_given_and_cannot_play_is_told() -> None:
    found = mission(seats=3, steps=12)
    interface = PolicyEnvInterface.from_mg_cfg(config_of(found))
    with pytest.raises(BadInput, match=r"this Locked cannot be copied for each episode \(TypeError: .*give its class"):
        evaluate(found, cogs.Locked(interface), plan=0)
    other = PolicyEnvInterface.from_mg_cfg(config_of(mission(seats=2)))
    with pytest.raises(BadInput, match=r"made for another game \(num_agents differ\)"):
        evaluate(found, cogs.Walker(other), plan=0)


def test_a_policy_that_cannot_make_all_agents_stays_together() -> None:
    """It is asked for those that it plays, and for no others when it plays."""
    found = replace(mission(seats=4, steps=20), seating=((0, 1, 0, 1),))
    report = evaluate(found, ["class=cogs.Even", WALKER], plan=0, agents="process")
    (note,) = report.notes
    assert "2 agents of policy 'Even' share a policy that cannot make agents for all seats (LookupError" in note
    assert not report.failures


def test_policies_that_live_apart_on_request_are_the_same_wherever_they_live() -> None:
    found, specs = mission(seats=4, steps=60), ["random,together=false", "cogs.Drawing"]
    here = evaluate(found, specs, episodes=2, seed=1, plan=0, agents="off")
    there = evaluate(found, specs, episodes=2, seed=1, plan=0, agents="process")
    assert here.digest == there.digest
    assert not here.failures


@pytest.mark.parametrize("spec", ["random", "class=cogs.Drawing", "class=cogs.LateDrawing", "class=cogs.Reseeding"])
def test_agents_that_draw_from_process_wide_generators_take_turns_on_threads(spec: str) -> None:
    """Also those that draw late, when they have been run beside others; what they drew before they were known, does
    not count."""
    found = mission(seats=4, steps=20)
    state = random.getstate()
    here = evaluate(found, [spec, WALKER], episodes=2, plan=0, agents="off")
    there = evaluate(found, [spec, WALKER], episodes=2, plan=0, agents="thread")
    assert not there.failures
    assert there.digest == here.digest
    (note,) = there.notes
    assert re.match(r"policy '\w+' draws from .*asked one at a time", note)
    assert random.getstate() == state


def test_agents_that_draw_and_agents_that_wait_share_a_team() -> None:
    """Threads and the caller's own process in one episode."""
    found = mission(seats=4, steps=20)
    specs = [WALKER, "random", "class=cogs.Drawing,agents=off"]
    here = evaluate(found, specs, episodes=2, plan=0, agents="off")
    there = evaluate(found, specs, episodes=2, plan=0, agents="thread")
    assert (there.failures, there.digest) == ([], here.digest)


def test_a_batch_policy_is_asked_once_per_tick_and_gives_the_same() -> None:
    found = mission("market", 6, 40)
    before = cogs.Counted.asked_in_batches
    seat_by_seat = evaluate(found, "class=cogs.Counted", plan=0)
    assert cogs.Counted.asked_in_batches == before
    together = evaluate(found, "class=cogs.Counted,batch=true", plan=0, agents="off")
    assert cogs.Counted.asked_in_batches in (before + 40, before + 80)  # the engine may play a first episode twice
    assert together.digest == seat_by_seat.digest
    assert evaluate(found, "class=cogs.Counted,batch=true", plan=1, agents="process").digest == seat_by_seat.digest


def test_batches_need_a_step_batch_of_the_policys_own() -> None:
    with pytest.raises(BadInput, match="has no step_batch of its own"):
        find_policies([f"{WALKER},batch=true"], mission())


def test_old_observations_stay_what_they_were() -> None:
    """A policy that acts on kept observations acts alike here and in another process: they are no views."""
    found = mission("market", 4, 80)
    assert (
        evaluate(found, "class=cogs.Remembering", plan=0).digest
        == evaluate(found, "class=cogs.Remembering", plan=0, agents="process").digest
    )


def test_what_a_world_has_shown_does_not_change() -> None:
    """The simulator writes each step over the last one in its own buffer."""
    world = MettaGridWorld(market(2))
    seen, _ = world.reset(0)
    before = {agent: obs.copy() for agent, obs in seen.items()}
    later = world.step(dict.fromkeys(world.possible_agents, 4))[0]
    assert all(np.array_equal(seen[agent], before[agent]) for agent in seen)
    assert not all(np.array_equal(seen[agent], later[agent]) for agent in seen)


def test_a_recipe_can_be_sent_whatever_its_policies_hold() -> None:
    """It was tried out here before workers get it; what was built for that stays here."""
    found = mission(seats=2, steps=20)
    here = evaluate(found, "class=cogs.Locked", episodes=2, plan=0)
    assert not here.failures
    for plan, agents in ((2, "off"), (0, "process")):
        report = evaluate(found, "class=cogs.Locked", episodes=2, plan=plan, agents=agents)
        assert (report.digest, report.notes) == (here.digest, [])


# -- observations and actions --------------------------------------------------------------------------------


def test_observations_from_raw_rows_are_upstreams() -> None:
    config = market(6)
    config.game.map_builder.seed = 3  # type: ignore[attr-defined]
    world = MettaGridWorld(config)
    world.reset(3)
    sim = Simulator().new_simulation(config, 3)
    reader = Reader(world.observation_space("agent_0").interface)  # type: ignore[attr-defined]
    for tick in range(20):
        raw = sim._c_sim.observations()
        for agent in range(6):
            ours, theirs = reader.observation(agent, raw[agent].copy()), sim.agent(agent).observation
            assert [(t.feature, t.value, t.location, t.is_global) for t in ours.tokens] == [
                (t.feature, t.value, t.location, t.is_global) for t in theirs.tokens
            ]
            assert (ours.agent_id, list(ours.talk)) == (theirs.agent_id, list(theirs.talk))
            sim.agent(agent).set_action(Action(sim.action_names[(tick + agent) % 5]))
        sim.step()


@pytest.mark.parametrize("count", [0, 1, 4])
def test_rows_end_at_the_first_that_holds_no_token(count: int) -> None:
    raw = np.full((4, 3), 0xFF, np.uint8)
    raw[:count] = 1
    assert read(raw) == [[1, 1, 1]] * count


def test_numbers_of_actions_fill_the_buffers_as_upstream_does() -> None:
    sim = Simulator().new_simulation(empty_room(1), 0)
    table = ActionTable(sim.action_names)
    names = sim.action_names
    for action in [Action("move_east"), Action(names[-1]), Action("move_west", vibe=names[-2]), Action("noop")]:
        sim.agent(0).set_action(action)
        assert table.buffers[table.number(action)] == (sim._c_sim.actions()[0], sim._c_sim.vibe_actions()[0])
    assert table.noop == 0


@pytest.mark.parametrize("answer", [Action("fly"), "noop", None, Action("change_vibe_gear", vibe="change_vibe_hub")])
def test_an_action_that_the_game_does_not_have_is_told(answer: Any) -> None:
    sim = Simulator().new_simulation(empty_room(1), 0)
    with pytest.raises(BadInput, match="the policy answered"):
        ActionTable(sim.action_names).number(answer)


def test_agents_talk_where_the_game_lets_them() -> None:
    config = empty_room(2)
    config.game.talk.enabled = True
    config.game.max_steps = 30
    played = Mission("talk", mettagrid.Recipe(config, mettagrid.Asked()))
    report = evaluate(played, "cogs_that_talk:Talker", episodes=2, plan=0)
    assert not report.failures
    assert report.digest == evaluate(played, "cogs_that_talk:Talker", episodes=2, plan=0, agents="process").digest
    theirs, _ = run_multi_episode_rollout(
        policy_specs=[PolicySpec(class_path="cogs_that_talk.Talker")],
        assignments=[0, 0],
        env_cfg=config,
        episodes=2,
        seed=0,
        max_action_time_ms=60_000,
    )
    assert [list(e.rewards.values()) for e in report.episodes] == [e.rewards for e in theirs.episodes]
    assert [list(e.stats.values()) for e in report.episodes] == [e.stats["agent"] for e in theirs.episodes]


# -- missions ------------------------------------------------------------------------------------------------


def test_every_builder_has_its_sentence() -> None:
    assert list(mettagrid.ABOUT) == list(BUILDERS)


@pytest.mark.parametrize("name", list(BUILDERS))
def test_a_mission_plays_with_what_is_asked(name: str) -> None:
    report = evaluate(mission(name, 3, 20), "random", episodes=1, plan=0)
    (episode,) = report.episodes
    assert (len(episode.seats), episode.steps, episode.failure) == (3, 20, None)


def test_the_market_is_full_of_objects_that_are_no_walls() -> None:
    (episode,) = evaluate(mission("market", 4, 1), "noop", plan=0).episodes
    objects = {name: n for name, n in episode.game_stats.items() if name.startswith("objects.") and "agent" not in name}
    assert sum(count for name, count in objects.items() if name != "objects.wall") > 400


def test_the_stand_in_is_as_large_as_what_it_stands_for() -> None:
    world = MettaGridWorld(machina_1(4))
    world.reset(0)
    rows = world.render().split("\n")
    assert (len(rows), {len(row) for row in rows}) == (98, {98})
    world.close()


def test_a_map_seed_gives_one_map_to_all_episodes() -> None:
    one = mission(map_seed=3)
    first, second = (MettaGridWorld(config_of(one)) for _ in range(2))
    maps = []
    for world, seed in ((first, 1), (second, 2)):
        world.reset(seed)
        maps.append(world.render().replace("0", "a").replace("1", "a").replace("2", "a").replace("3", "a"))
    assert maps[0] == maps[1]
    assert evaluate(one, "noop", episodes=2, plan=0).digest != evaluate(mission(), "noop", episodes=2, plan=0).digest


SMALL = """
from mettagrid.config.mettagrid_config import MettaGridConfig

def get_config(cogs=4):
    config = MettaGridConfig.EmptyRoom(num_agents=cogs, width=14, height=11, border_width=1)
    config.game.map_builder.objects = {"wall": 3} if cogs < 200 else {}
    return config
"""
ENDLESS = """
from mettagrid.config.mettagrid_config import MettaGridConfig
from mettagrid.map_builder.map_builder import MapBuilder, MapBuilderConfig

class EndlessConfig(MapBuilderConfig["Endless"]):
    width: int = 20
    height: int = 20

class Endless(MapBuilder[EndlessConfig]):
    def build(self):
        while True:
            pass

def get_config(agents=4):
    config = MettaGridConfig.EmptyRoom(num_agents=agents, width=40, height=40)
    config.game.map_builder = EndlessConfig()
    return config
"""
FILE = """
from paceline.adapters.mettagrid.builders import empty_room

def get_config(cogs=2, width=12):
    config = empty_room(cogs, width)
    config.game.max_steps = 15
    return config

def long(config):
    config.game.max_steps = 25

variants = {"long": long}
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_python_file_is_a_mission(desk: Path) -> None:
    (desk / "my_room.py").write_text(FILE)
    (plain,) = find_missions(["my_room.py"])
    (asked,) = find_missions(["my_room.py,width=20"], agents=3, variants=["long"])
    assert [e.steps for e in evaluate(plain, episodes=1, plan=0).episodes] == [15]
    (episode,) = evaluate(asked, episodes=1, plan=1).episodes
    assert (len(episode.seats), episode.steps, set(episode.seats.values())) == (3, 25, {"random"})
    with pytest.raises(BadInput, match="has no variant short; it has long"):
        find_missions(["my_room.py"], variants=["short"])


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_configuration_file_is_a_mission(desk: Path, suffix: str) -> None:
    import yaml

    config = empty_room(2)
    config.game.max_steps = 12
    content = config.model_dump(mode="json")
    text = json.dumps(content) if suffix == ".json" else yaml.safe_dump(content)
    (desk / f"room{suffix}").write_text(text)
    (found,) = find_missions([f"room{suffix}"])
    assert config_of(found) == config
    assert [e.steps for e in evaluate(found, "noop", episodes=1, plan=0).episodes] == [12]


@pytest.mark.parametrize(
    ("spec", "asked", "message"),
    [
        ("market", {}, "there is mettagrid:market"),
        ("mettagrid:empty_room,width=3,height=3", {}, "its map has 1 places"),
        ("mettagrid:market,density=5", {}, "cannot be built"),
        ("mettagrid:empty_room,cogs=3,agents=4", {}, "two words for one thing"),
        ("cogsguard:arena", {}, "it needs cogames and its game cogsguard"),
        ("exits.py", {}, "failed: SystemExit"),
        ("none.py", {"variants": ["x"]}, "has no variant x; it has none"),
        ("empty.yaml", {}, "empty.yaml holds no configuration"),
        ("mettagrid:nowhere", {}, "there are mettagrid:empty_room"),
        ("mettagrid:emty_room", {}, "close to it: mettagrid:empty_room"),
        ("mettagrid:empty_room,depth=3", {}, "has no option depth; it has width, height, cogs"),
        ("mettagrid:empty_room", {"agents": 500}, "has no room for 500 cogs: its map has 196 places"),
        ("small.py", {"agents": 200}, "small.py has no room for 200 cogs: its map has 108 places"),
        ("tight.py", {"agents": 108}, "no room for 108 cogs: its map has 108 places, and objects of 1 kind"),
        ("endless.py", {"agents": 200}, "endless.py was not finished in 1 s for 200 cogs in 20 × 20 cells"),
        ("mettagrid:empty_room", {"agents": 0}, "cogs=0; give a whole number"),
        ("mettagrid:empty_room", {"variants": ["dark"]}, "has no variant dark; it has none"),
        ("mettagrid:empty_room,map_seed=-1", {}, "map_seed=-1; give a whole number"),
        ("forage", {"map_seed": 3}, "'forage' is none of mettagrid, and --map-seed is for those"),
        ("forage", {"variants": ["dark"]}, "'forage' is none of mettagrid, and --variant is for those"),
        ("no_such.yaml", {}, "there is no file no_such.yaml"),
        ("broken.json", {}, "broken.json is no mission of mettagrid"),
        ("plain.py", {}, "plain.py is a file: say which factory in it, as plain.py:factory"),
        ("other.py", {}, "gives a dict; it must be a MettaGridConfig"),
        ("raises.py", {}, r"get_config\(\) of raises.py failed: ZeroDivisionError"),
    ],
)
def test_what_makes_no_sense_is_told(
    desk: Path, monkeypatch: pytest.MonkeyPatch, spec: str, asked: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(mettagrid, "MAP_SECONDS", 1.0)
    (desk / "small.py").write_text(SMALL)
    (desk / "tight.py").write_text(SMALL)
    (desk / "endless.py").write_text(ENDLESS)
    (desk / "broken.json").write_text("{")
    (desk / "plain.py").write_text("x = 1\n")
    (desk / "exits.py").write_text("import sys\n\n\ndef get_config():\n    sys.exit(0)\n")
    (desk / "none.py").write_text(FILE.replace("variants = {", "variants = None and {"))
    (desk / "empty.yaml").write_text("")
    (desk / "other.py").write_text("config = {}\n")
    (desk / "raises.py").write_text("def get_config():\n    return 1 / 0\n")
    with pytest.raises(BadInput, match=message):
        find_missions([spec], **asked)


GAME = {
    "cogames/__init__.py": "",
    "cogames/cli/__init__.py": "",
    "cogames/standalone_games.py": """
class Install:
    module_name = "toygame.game"
STANDALONE_GAMES = {"cogsguard": Install, "absent": type("Absent", (), {"module_name": "absent.game"})}
""",
    "cogames/game.py": """
import importlib
_GAMES = {}
def get_game(name):
    importlib.import_module("toygame.game")
    return _GAMES[name]
""",
    "cogames/cli/mission.py": """
def find_mission(game, name, include_evals=False):
    if name not in ("machina_1", "meadow"):
        raise ValueError("no such mission")
def resolve_mission(game, name, variants, cogs):
    if variants not in ([], ["dark"]):
        raise ValueError(f"Unknown variant '{variants[0]}'. Available variants: dark")
    from paceline.adapters.mettagrid.builders import empty_room
    config = empty_room(cogs or 5)
    config.game.max_steps = 9
    return name, config, None
""",
    "toygame/__init__.py": "",
    "toygame/game.py": "from cogames.game import _GAMES\n_GAMES['cogsguard'] = object()\n",
}


def test_a_game_that_is_installed_is_found_by_name(desk: Path) -> None:
    """In a process of its own, beside a package with the names of cogames: there the mission of that name is meant."""
    for name, text in GAME.items():
        (desk / name).parent.mkdir(parents=True, exist_ok=True)
        (desk / name).write_text(text)
    program = """
from paceline import BadInput, evaluate
from paceline.catalog import find_missions
for spec in ("machina_1", "meadow", "cogsguard:meadow"):
    (found,) = find_missions([spec], agents=3, variants=["dark"])
    (episode,) = evaluate(found, episodes=1, plan=0).episodes
    print(found.name, len(episode.seats), episode.steps, found.caution)
try:
    find_missions(["meadow"], variants=["bright"])
except BadInput as error:
    print(error)
"""
    assert run_python(program, cwd=desk).splitlines() == [
        "machina_1 3 9 ",
        "meadow 3 9 ",
        "cogsguard:meadow 3 9 ",
        "meadow: Unknown variant 'bright'. Available variants: dark",
    ]


# -- policies ------------------------------------------------------------------------------------------------


def test_short_names_are_read_without_importing_torch() -> None:
    program = """
import sys
from paceline import evaluate
report = evaluate("mettagrid:empty_room,steps=3", ["random", "noop"], plan=0)
from paceline.adapters.mettagrid.short_names import short_names
print(sorted(set(short_names()) & {"random", "noop", "lstm"}), "torch" in sys.modules)
"""
    assert run_python(program).strip() == "['lstm', 'noop', 'random'] False"


def test_short_names_are_upstreams() -> None:
    from mettagrid.policy.loader import discover_and_register_policies
    from mettagrid.policy.policy_registry import get_policy_registry

    discover_and_register_policies()
    known = {name: path for name, path in get_policy_registry().items() if path.startswith("mettagrid.")}
    assert known.items() <= short_names().items()


def test_a_name_means_upstreams_policy_there_and_ours_elsewhere() -> None:
    report = evaluate(["mettagrid:empty_room,steps=5", "forage,steps=5"], ["random", "paceline:random"], plan=0)
    assert not report.failures
    theirs, ours = find_policies(["random"], mission())[0], find_policies(["random"])[0]
    assert type(theirs.factory).__name__ == "Cogs"
    assert ours.factory is find_policies(["paceline:random"], mission())[0].factory
    assert [p["name"] for p in report.identity["policies"]] == ["random", "paceline:random"]


def test_without_a_policy_each_kind_of_mission_has_its_own() -> None:
    report = evaluate(["mettagrid:empty_room,steps=5", "forage,steps=5"], plan=0)
    assert [(score.mission, score.policy) for score in report.scores()][:2] == [
        ("mettagrid:empty_room,steps=5", "random"),
        ("forage,steps=5", "greedy"),
    ]


def test_a_policy_of_paceline_sees_the_raw_rows() -> None:
    def east(obs: Any) -> int:
        assert obs.shape == (500, 3)
        return 4

    report = evaluate(mission(seats=2, steps=30), east, plan=0)
    assert all(stats["action.move.success"] > 0 for stats in report.episodes[0].stats.values())


def test_a_class_may_be_given_itself() -> None:
    by_name = evaluate(mission(steps=30), "class=cogs.Walker,name=Walker", plan=0)
    assert evaluate(mission(steps=30), cogs.Walker, plan=0).digest == by_name.digest


def test_shares_of_names_and_objects_count_together() -> None:
    report = evaluate(mission(seats=9, steps=2), ["noop,proportion=0.5", cogs.Walker], plan=0)
    assert Counter(report.episodes[0].seats.values()) == {"noop": 3, "Walker": 6}


def test_shares_may_be_fractions_as_in_cogames() -> None:
    found = find_policies(["class=noop,proportion=0.5", "class=random,proportion=0.25", "random"], mission())
    assert [player.share for player in found] == [2, 1, 4]


def test_data_and_keywords_reach_the_policy(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    weights = tmp_path / "cell.pt"
    torch.save(torch.nn.GRUCell(64, 8).state_dict(), weights)
    spec = f"data={weights},class=cogs.Recurrent,kw.hidden=8"
    (player,) = find_policies([spec], mission())
    assert player.name == "Recurrent-cell.pt"
    with_data = evaluate(mission(steps=30), spec, plan=0)
    assert not with_data.failures
    assert with_data.digest != evaluate(mission(steps=30), "class=cogs.Recurrent,kw.hidden=8", plan=0).digest
    assert weights in player.factory.files  # type: ignore[attr-defined]


@pytest.mark.parametrize("zipped", [False, True])
def test_bundles_are_policies(desk: Path, zipped: bool) -> None:
    import shutil

    bundle, name = desk / "bundle", f"bundled_{zipped}".lower()
    (bundle / name).mkdir(parents=True)
    (bundle / name / "__init__.py").write_text("")
    (bundle / name / "mind.py").write_text("from cogs import Walker\n\n\nclass Mind(Walker):\n    pass\n")
    (bundle / "policy_spec.json").write_text(json.dumps({"class_path": f"{name}.mind.Mind"}))
    path = shutil.make_archive("mind", "zip", bundle) if zipped else "bundle"
    here = evaluate(mission(steps=20), f"{path},name=w", plan=0)
    assert here.digest == evaluate(mission(steps=20), "class=cogs.Walker,name=w", plan=0).digest
    assert here.digest == evaluate(mission(steps=20), f"{path},name=w", plan=1).digest


def test_two_bundles_with_a_module_of_one_name_are_refused(desk: Path) -> None:
    """A process can import one of them only, and which one would depend on where it is played."""
    for name, action in (("a", "noop"), ("b", "move_north")):
        (desk / name).mkdir()
        (desk / name / "solo_mind.py").write_text(
            "from cogs import AgentPolicy, Action\n\n\nclass Pol(AgentPolicy):\n"
            f"    def step(self, obs):\n        return Action(name={action!r})\n"
        )
        (desk / name / "policy_spec.json").write_text(json.dumps({"class_path": "solo_mind.Pol"}))
    assert not evaluate(mission(steps=5), "./a", plan=1).failures
    with pytest.raises(BadInput, match=r"b brings a module 'solo_mind', and so does .*a: rename it"):
        evaluate(mission(steps=5), ["./a", "./b"], plan=0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("class=", "mettagrid has no policy ''"),
        (f"class=cogs.Drawing,data={cogs.__file__}", "Drawing is an AgentPolicy, which loads no data"),
        ("nothere.zip", "there is no bundle nothere.zip"),
        ("random,together=no", "together=no in .*: give true, or false"),
        ("random,proportion=1/0", "give a number"),
        ("class=cogs.Nothing", "cogs.Nothing cannot be loaded"),
        ("class=randm", "mettagrid has no policy 'randm'; close to it: random"),
        ("class=cogs.Walker,data=nowhere.pt", "there is no file nowhere.pt"),
        ("class=cogs.told", "told is no policy: it must be a MultiAgentPolicy or an AgentPolicy of mettagrid"),
        ("class=cogs.Walker,colour=red", "'colour' in .* is no option of a policy"),
        ("class=cogs.Walker,proportion=some", "proportion='some'; give a number"),
        ("s3://bucket/run.zip", "is not on this machine"),
        ("class=cogs.Counted,batch=true,together=false", "give one"),
    ],
)
def test_a_policy_that_makes_no_sense_is_told(spec: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_policies([spec], mission())


def test_a_policy_of_mettagrid_plays_no_other_mission() -> None:
    with pytest.raises(BadInput, match=r"is a Walker: it has no act\(obs\)"):
        evaluate("forage", "class=cogs.Walker", plan=0)


# -- late actions, replays, mixes, levels --------------------------------------------------------------------


def test_a_late_action_is_counted_or_becomes_noop() -> None:
    found = mission(seats=2, steps=10)
    counted = evaluate(found, WALKER, plan=0, action_limit=1e-9)
    assert counted.digest == evaluate(found, WALKER, plan=0).digest
    assert counted.scores()[0].late == 20
    replaced = evaluate(found, WALKER, plan=0, action_limit=1e-9, timeout_action="noop")
    assert [stats["action.noop.success"] for stats in replaced.episodes[0].stats.values()] == [10, 10]
    assert "20 actions came late and became noop" in " ".join(replaced.notes)


class Patient(cogs.Walker):
    """Asks for more time than it needs."""

    minimum_action_timeout_ms = 60_000
    told: ClassVar[set[int]] = set()

    def agent_policy(self, agent_id: int) -> Any:
        Patient.told.add(self.action_timeout_ms)
        return super().agent_policy(agent_id)


def test_a_limit_is_as_long_as_the_most_patient_policy_needs_as_upstream_has_it() -> None:
    found = mission(seats=2, steps=5)
    report = evaluate(found, [Patient, cogs.Walker], plan=0, action_limit=1e-9, timeout_action="noop")
    assert report.scores()[0].late == report.scores()[1].late == 0
    assert Patient.told == {60_000}


def test_noop_needs_a_mission_that_has_it() -> None:
    with pytest.raises(BadInput, match="does not say which action does nothing"):
        evaluate("gym:CartPole-v1", "random", plan=0, action_limit=1.0, timeout_action="noop")


def test_replays_are_in_mettagrids_format(tmp_path: Path) -> None:
    report = evaluate(
        mission(seats=2, steps=12), [WALKER, "noop"], episodes=2, seed=4, plan=2, replays=tmp_path / "replays"
    )
    paths = [Path(str(episode.replay)) for episode in report.episodes]
    assert [path.name for path in paths] == [
        "mettagrid_empty_room-0-seed4.json.z",
        "mettagrid_empty_room-1-seed5.json.z",
    ]
    replay = json.loads(zlib.decompress(paths[0].read_bytes()))
    assert (replay["version"], replay["num_agents"], replay["max_steps"]) == (4, 2, 12)
    named = [thing["policy_infos"] for thing in replay["objects"] if "agent_id" in thing]
    assert sorted(infos["policy_name"] for infos in named) == sorted(report.episodes[0].seats.values())
    assert report.digest == evaluate(mission(seats=2, steps=12), [WALKER, "noop"], episodes=2, seed=4, plan=0).digest


def test_replays_of_missions_with_like_names_do_not_meet(tmp_path: Path) -> None:
    like = [Mission(name, mission(steps=3).make) for name in ("a/b", "a_b")]
    report = evaluate(like, "noop", plan=0, replays=tmp_path)
    assert len({episode.replay for episode in report.episodes}) == len(list(tmp_path.iterdir())) == 2


def test_an_episode_that_failed_names_no_replay(tmp_path: Path) -> None:
    policy = f"class=cogs.Faulty,kw.kind=raise,kw.marker={tmp_path / 'marker'}"
    (episode,) = evaluate(mission(steps=10), policy, plan=0, replays=tmp_path / "replays").episodes
    assert (episode.failure is not None, episode.replay) == (True, None)


def test_a_mission_without_replays_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'forage' keeps no replays"):
        evaluate("forage", "random", plan=0, replays=tmp_path)


def test_every_mix_of_candidate_and_pool_is_valued() -> None:
    found = mission(seats=3, steps=30)
    cast = tuple(find_policies([WALKER, "noop"], found))
    run = mixed(Run((found,), cast, 2, 0))
    assert [mix for _, mix in run.mixes.values()] == [3, 2, 1, 0]
    for number, seats in enumerate([3, 2, 1, 0]):
        assert [run.seating(Job(number, index), 3).count(0) for index in range(2)] == [seats, seats]
    report = evaluate(run.missions, cast, episodes=2, plan=0)
    report.identity["mixes"] = run.identity()["mixes"]
    (worth,) = replacements(report)
    scores = {mix.candidates: mix.score for mix in worth.mixes}
    assert worth.replacement == scores[0]
    values = [scores[c] - scores[0] for c in (3, 2, 1)]  # type: ignore[operator]
    assert [mix.value for mix in worth.mixes] == [*values, None]
    assert worth.value == pytest.approx(sum(v * c for v, c in zip(values, (3, 2, 1), strict=True)) / 6)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("missions episodes", [[(0, 0), (0, 1), (1, 0), (1, 1)]]),
        ("episodes", [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]),
        ("missions", [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]),
        ("", [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]),
    ],
)
def test_what_is_left_out_of_the_levels_runs_one_after_another(levels: str, expected: list[Any]) -> None:
    run = Run((Mission("a", dict), Mission("b", dict)), (Player("c", dict),), episodes=2)
    jobs = run.jobs(by_episode=by_episode(levels.split()))
    assert [[(job.mission, job.index) for job in wave] for wave in waves(jobs, levels.split())] == expected


@pytest.mark.parametrize("levels", ["missions", "episodes", "agents", "missions,agents", ""])
def test_levels_change_nothing(levels: str) -> None:
    missions = ["mettagrid:empty_room,steps=20", "forage,steps=20"]
    expected = evaluate(missions, "random", episodes=3, plan=0).digest
    wanted = [level for level in levels.split(",") if level]
    assert evaluate(missions, "random", episodes=3, plan=Plan("process", 2), levels=wanted).digest == expected


def test_without_episodes_one_of_each_mission_is_played_at_a_time() -> None:
    ended: list[int] = []
    missions = ["forage,steps=20", "cleanup,steps=20"]
    evaluate(
        missions,
        "random",
        episodes=4,
        plan=Plan("process", 2),
        levels=["missions"],
        watcher=lambda episode, done, total: ended.append(episode.index),
    )
    assert ended == [0, 0, 1, 1, 2, 2, 3, 3]


def test_auto_starts_no_workers_for_what_may_not_run_side_by_side() -> None:
    report = evaluate("forage", "random", episodes=8, levels=["missions", "agents"])
    assert report.plan["backend"] == "inline"
    assert "one episode to play at a time" in report.plan["why"]


def test_episodes_that_are_stepped_together_need_their_level() -> None:
    with pytest.raises(BadInput, match="steps episodes together: leave 'episodes' in the levels"):
        evaluate("forage", "random", agents="gpu", levels=["missions", "agents"])


def test_a_level_that_is_none_is_told() -> None:
    with pytest.raises(BadInput, match="there is no level 'worlds'"):
        evaluate("forage", levels=["worlds"])


# -- the report ----------------------------------------------------------------------------------------------


def played() -> Report:
    return evaluate(mission(seats=3, steps=20), [f"{WALKER},proportion=2", "noop"], episodes=3, plan=0)


def test_the_summary_has_upstreams_shape_and_right_averages() -> None:
    from mettagrid.simulator.multi_episode.summary import MultiEpisodeRolloutSummary

    report = played()
    (named,) = summary(report)["missions"]
    shaped = MultiEpisodeRolloutSummary.model_validate(named["mission_summary"])
    assert (named["mission_name"], shaped.episodes) == ("mettagrid:empty_room", 3)
    assert [policy.agent_count for policy in shaped.policy_summaries] == [2, 1]
    assert shaped.policy_summaries[1].avg_agent_metrics["action.noop.success"] == 20  # upstream would say 60
    assert shaped.per_episode_per_policy_avg_rewards.keys() == {0, 1, 2}


def test_stats_of_agents_and_of_the_game_stand_apart() -> None:
    report = played()
    content = report.as_dict()
    assert content["episodes"][0]["stats"].keys() == {"agent_0", "agent_1", "agent_2"}
    assert "objects.wall" in content["episodes"][0]["game_stats"]
    assert content["game_stats"]["mettagrid:empty_room"]["at_end"]["objects.wall"] == 60
    by_policy = {score["policy"]: score["stats"] for score in content["scores"]}
    assert by_policy["noop"]["action.noop.success"] == 20
