"""The budget is what the affinity mask, the control groups and the free memory leave, whichever is least."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.planning import budget
from paceline.engine.planning.budget import WORKER_BYTES, Budget
from paceline.errors import BadInput

MIB = 2**20
GIB = 2**30
AFFINITY = len(os.sched_getaffinity(0))


class Machine:
    """Control groups and a process file system, made of real files under a temporary directory."""

    def __init__(self, root: Path) -> None:
        self.cgroup, self.proc = root / "cgroup", root / "proc"
        self.cgroup.mkdir()

    def joins(self, *lines: str) -> None:
        """Says which control groups this process is in."""
        self._write(self.proc / "self" / "cgroup", "\n".join(lines) + "\n")

    def has(self, group: str, **files: str) -> None:
        """Gives a control group its files; `cpu_max` stands for `cpu.max`."""
        for name, text in files.items():
            self._write(self.cgroup / group / name.replace("_", ".", 1), text + "\n")

    def budget(self) -> Budget:
        return Budget.of_machine(cgroup=self.cgroup, proc=self.proc)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def unassigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_current", None)


def test_the_real_machine_has_a_budget() -> None:
    found = Budget.of_machine()
    assert 1 <= found.slots <= AFFINITY
    assert 0 < found.memory <= psutil.virtual_memory().total
    assert found.waiting == 128


def test_without_control_groups_the_affinity_counts(machine: Machine) -> None:
    assert machine.budget().slots == AFFINITY


def test_a_process_bound_to_one_core_has_one_slot(machine: Machine) -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from paceline.engine.planning.budget import Budget; print(Budget.of_machine().slots)"
    )
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["1"]


@pytest.mark.parametrize("mount", ["", "unified"])
def test_a_version_2_quota_counts(machine: Machine, mount: str) -> None:
    machine.joins("0::/job")
    machine.has(f"{mount}/job".lstrip("/"), cpu_max="100000 100000")
    assert machine.budget().slots == 1


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
def test_a_version_1_quota_counts(machine: Machine, controllers: str) -> None:
    machine.joins("7:memory:/", f"3:{controllers}:/job", "0::/")
    machine.has(f"{controllers}/job", cpu_cfs_quota_us="100000", cpu_cfs_period_us="100000")
    assert machine.budget().slots == 1


def test_no_quota_is_no_limit(machine: Machine) -> None:
    machine.joins("3:cpu:/job", "0::/job")
    machine.has("job", cpu_max="max 100000", memory_max="max", memory_current="5")
    machine.has("cpu/job", cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
    assert machine.budget().slots == AFFINITY
    assert machine.budget().memory > 0


def test_the_tightest_quota_on_the_way_up_counts(machine: Machine) -> None:
    machine.joins("0::/pod/job")
    machine.has("pod/job", cpu_max="max 100000")
    machine.has("pod", cpu_max="100000 100000")
    machine.has(".", cpu_max=f"{(AFFINITY + 1) * 100000} 100000")
    assert machine.budget().slots == 1


def test_a_quota_above_the_affinity_adds_no_cores(machine: Machine) -> None:
    machine.joins("0::/")
    machine.has(".", cpu_max=f"{(AFFINITY + 8) * 100000} 100000")
    assert machine.budget().slots == AFFINITY


@pytest.mark.parametrize("quota", ["10000", "150000"])
def test_a_part_of_a_core_is_no_slot_but_there_is_always_one(machine: Machine, quota: str) -> None:
    machine.joins("0::/")
    machine.has(".", cpu_max=f"{quota} 100000")
    assert machine.budget().slots == 1


@pytest.mark.parametrize("path", ["/docker/0123abcd", "/../outside"])
def test_in_a_container_the_root_of_the_mount_is_our_own_group(machine: Machine, path: str) -> None:
    machine.joins(f"0::{path}")
    machine.has(".", cpu_max="100000 100000", memory_max=str(64 * MIB), memory_current=str(16 * MIB))
    assert machine.budget().slots == 1
    assert machine.budget().memory == 48 * MIB


def test_files_that_were_only_read_leave_their_memory_free(machine: Machine) -> None:
    machine.joins("0::/job")
    machine.has("job", memory_max=str(64 * MIB), memory_current=str(60 * MIB))
    assert machine.budget().memory == 4 * MIB
    machine.has("job", memory_stat=f"anon {20 * MIB}\ninactive_file {40 * MIB}")
    assert machine.budget().memory == 44 * MIB


def test_a_version_1_memory_limit_counts(machine: Machine) -> None:
    machine.joins("4:memory:/job", "0::/")
    machine.has("memory/job", memory_limit_in_bytes=str(64 * MIB), memory_usage_in_bytes=str(16 * MIB))
    assert machine.budget().memory == 48 * MIB


def test_an_unlimited_group_leaves_what_the_machine_has_free(machine: Machine) -> None:
    machine.joins("4:memory:/")
    machine.has("memory", memory_limit_in_bytes="9223372036854771712", memory_usage_in_bytes=str(MIB))
    assert 0 < machine.budget().memory <= psutil.virtual_memory().total


def test_a_group_above_its_limit_has_no_memory_left(machine: Machine) -> None:
    machine.joins("0::/")
    machine.has(".", memory_max=str(MIB), memory_current=str(2 * MIB))
    assert machine.budget().memory == 0


def test_empty_control_files_are_no_limit(machine: Machine) -> None:
    machine.joins("3:cpu:/", "0::/")
    machine.has(".", cpu_max="", memory_max="", memory_current="")
    machine.has("cpu", cpu_cfs_quota_us="", cpu_cfs_period_us="")
    assert machine.budget().slots == AFFINITY


def test_workers_are_bounded_by_members_slots_and_memory() -> None:
    roomy = Budget(slots=8, memory=64 * GIB)
    assert roomy.workers_for(3) == 3
    assert roomy.workers_for(100) == 8
    assert roomy.workers_for(100, per_worker_bytes=16 * GIB) == 4
    assert Budget(slots=8, memory=2 * WORKER_BYTES).workers_for(100) == 2


def test_there_is_always_room_for_one_worker() -> None:
    assert Budget(slots=4, memory=0).workers_for(4) == 1
    assert Budget(slots=4, memory=GIB).workers_for(0) == 1


def test_a_slice_is_a_share_of_everything() -> None:
    assert Budget(slots=8, memory=800, waiting=128).slice(4) == Budget(slots=2, memory=200, waiting=32)


def test_a_slice_of_less_than_two_slots_is_inline() -> None:
    assert Budget(slots=8, memory=800).slice(5).slots == 1
    assert Budget(slots=1, memory=800, waiting=2).slice(3) == Budget(slots=1, memory=266, waiting=1)


budgets = st.builds(Budget, st.integers(1, 512), st.integers(0, 2**45), st.integers(1, 4096))


@given(budgets, st.integers(1, 1000))
def test_slices_together_never_exceed_the_whole(whole: Budget, parts: int) -> None:
    part = whole.slice(parts)
    assert part.memory * parts <= whole.memory
    # Where there are more workers than slots, each still runs: inline, with one slot.
    assert part.slots == 1 or part.slots * parts <= whole.slots
    assert part.waiting == 1 or part.waiting * parts <= whole.waiting


@given(budgets, st.integers(1, 10_000), st.integers(1, 2**40))
def test_workers_never_exceed_what_there_is(whole: Budget, members: int, each: int) -> None:
    workers = whole.workers_for(members, each)
    assert 1 <= workers <= min(members, whole.slots)
    assert workers == 1 or workers * each <= whole.memory


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"memory": -1}, {"waiting": 0}])
def test_a_budget_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        Budget(**{"slots": 1, "memory": 1, **wrong})


def test_shares_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="parts=0"):
        Budget(1, 1).slice(0)
    with pytest.raises(BadInput, match="per_worker_bytes=0"):
        Budget(1, 1).workers_for(1, per_worker_bytes=0)


@pytest.mark.usefixtures("unassigned")
def test_the_current_budget_is_read_once() -> None:
    assert budget.current() is budget.current()
    assert budget.current().slots == Budget.of_machine().slots


@pytest.mark.usefixtures("unassigned")
def test_an_assigned_budget_is_the_current_one() -> None:
    share = Budget(slots=1, memory=GIB)
    budget.assign(share)
    assert budget.current() is share
