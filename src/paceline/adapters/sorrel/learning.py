"""Learning: every training that is due is run once, and taken over when the timetable says.

    epoch e is over, e = interval, 2 × interval, … ── changes of each model ──► learners: here, or in workers
    epoch e begins ◄── what trainings have changed, up to the number that may act in it ── settle, in order

With no lag a training is over before the next epoch begins, and here it is `model.train_step()` and nothing else. With
a lag it works on a copy, while the model itself goes on playing; what it has changed comes in `lag` trainings later,
wherever it was made. So the result is one and the same, here and in workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from paceline.adapters.sorrel.config import Parallel
from paceline.adapters.sorrel.learner import Learned, Learner, train
from paceline.adapters.sorrel.record import Record
from paceline.adapters.sorrel.replica import Replica, Sent, copied
from paceline.engine import Handle, OwnedStreams, Pool
from paceline.errors import BadInput, NotSendable, PacelineError, PlanNotMet, SharedRandomness
from paceline.train.timetable import Timetable
from paceline.train.updates import FROZEN, Update
from paceline.types import Failure

_STARTING = 3.0  # seconds that workers take to be of use
_WORTH = 1.0  # trainings stay with workers that take less than so many times what they take here
_HERE, _THERE = 2, 4  # trainings by which that is judged; the first ones take longer
_TRIES = 2  # of a training that kills its worker
_ALWAYS_RAISED = (BadInput, NotSendable, SharedRandomness)  # whatever on_failure says


class _Trainee:
    """One agent, as it is trained."""

    def __init__(self, number: int, name: str, model: Any) -> None:
        self.number, self.name, self.model = number, name, model
        self.owner = ("learn", number)
        self.replica: Replica | None = None
        self.copy: Learner | None = None
        self.in_pool = False
        self.away = False
        self.stays = False
        self.drew = False
        self.trained = 0
        self.done = 0
        self.pending: deque[tuple[Update, Learned | Handle | None]] = deque()


class Learning:
    """The trainings of all agents.

    Args:
        models: The agents' models, each with its memory.
        names: The agents' names.
        config: The block `parallel`.
        table: When trainings are due; its epoch 0 is the second one of a run, because none is due after the first.
        workers: How many workers may train; 0: none.
        streams: Streams of process-wide generators.
        record: Takes what happens.
    """

    def __init__(
        self,
        models: Sequence[Any],
        names: Sequence[str],
        config: Parallel,
        table: Timetable,
        workers: int,
        streams: OwnedStreams,
        record: Record,
    ) -> None:
        self._config, self._table, self._streams, self._record = config, table, streams, record
        self._all = [_Trainee(number, names[number], model) for number, model in enumerate(models)]
        self._workers = min(workers, len(self._all))
        self._decided = self._asked = config.num_workers is not None
        self._took: dict[bool, list[float]] = {False: [], True: []}  # seconds of trainings: here, and in workers
        self._pool: Pool | None = None
        self._shared: dict[int, bool] | None = None
        self._drawing: dict[str, list[str]] = {}  # who draws: the agents that are trained in order for it
        self._collected = 0.0

    def begin_epoch(self, epoch: int) -> None:
        """Takes over the trainings that may act in an epoch."""
        if epoch > 0:
            self._settle(self._table.version("", epoch - 1))

    def end_epoch(self, epoch: int) -> None:
        """Runs, or hands out, the trainings that an epoch has made due."""
        if epoch == 0 or not self._table.unlocked("", epoch - 1):
            return
        begin = perf_counter()
        if self._workers or self._table.lag:
            self._look_for_shared()
        for each in self._all:
            each.away = each.name not in self._record.failures and self._goes_to_pool(each) and self._is_there(each)
        self._say_who_draws()
        # Beside threads that learn no generators may be swapped, so those that stay here come first; beside processes
        # they come last, and are trained at the same time.
        with self._streams.shielded():
            for each in sorted(self._all, key=lambda each: each.away is self._config.use_threads):
                self._post(each, Update(each.name, each.done + len(each.pending), epoch))
            self._record.seconds["learning"] += perf_counter() - begin
            if not self._table.lag:
                self._wait()
        if not self._table.lag:
            self._settle(self._table.due("", epoch))
        if self._workers and not self._asked:
            self._judge(perf_counter() - begin, epoch)

    def finish(self) -> None:
        """Takes over everything that is under way."""
        self._settle(max((each.done + len(each.pending) for each in self._all), default=0))

    def wait_for_threads(self) -> None:
        """Waits for trainings on threads, which cannot be ended, and would go on, and draw, beside the caller."""
        if self._config.use_threads:
            self._wait()

    def close(self) -> None:
        """Ends the workers."""
        self._streams.hold_still(False)
        self._close_pool()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    # -- where -------------------------------------------------------------------------------------------------

    def _goes_to_pool(self, each: _Trainee) -> bool:
        if not self._workers or not self._decided or each.stays:
            return False
        if not self._config.use_threads:
            return True
        if not each.trained:
            return False  # first it has to be seen whether it draws
        drawing = [other.name for other in ([each] if not self._table.lag else self._all) if other.drew]
        if self._table.lag and not drawing and self._streams.have_drawn():
            drawing = ["the world, or an agent that acts,"]
        if not drawing:
            return True
        each.stays = True
        self._drawing.setdefault("it" if drawing[0] == each.name else drawing[0], []).append(each.name)
        return False

    def _say_who_draws(self) -> None:
        """Says once for all agents that threads train them in order, and that processes would not."""
        for who, names in self._drawing.items():
            several = len(names) > 1
            draws = "they draw" if several and who == "it" else f"{who} draws"
            self._record.note(
                f"{', '.join(names)} {'are' if several else 'is'} trained in order: {draws} from process-wide random "
                "generators, and draws on threads cannot be told apart. Processes would train agents beside each other "
                "(use_threads: false), and so would threads, if they had generators of their own"
            )
        self._drawing.clear()

    def _look_for_shared(self) -> None:
        """Agents whose models share what learning changes are trained in order."""
        if self._shared is not None:
            return
        self._shared, ids = {}, {}
        for each in self._all:
            try:
                ids[each.number] = Replica(each.model, "").ids()
            except Exception as error:
                self._stay(each, error)
        for each in self._all:
            for other in self._all[: each.number]:
                for found in ids.get(each.number, {}).keys() & ids.get(other.number, {}).keys():
                    self._shared[found] = ids[each.number][found] or ids[other.number][found]
        for each in self._all:
            if any(self._shared.get(found) for found in ids.get(each.number, ())):
                self._stay(each, BadInput("it shares its model, or arrays of it, with another agent"))

    def _stay(self, each: _Trainee, error: BaseException) -> None:
        if self._table.lag:
            raise BadInput(
                f"async_learning needs a copy of each agent's model, and that of {each.name} cannot be copied: {error}"
            ) from error
        if not each.stays and self._workers:
            self._record.note(f"{each.name} is trained in order, here: {type(error).__name__}: {error}")
        each.stays = True

    def _judge(self, took: float, epoch: int) -> None:
        """Takes how long a training of all took; decides whether workers would pay, and later whether they do."""
        here, there = self._took[False], self._took[True]
        self._took[self._decided].append(took)
        if not self._decided and len(here) == _HERE:
            self._decided = True
            self._look_ahead(min(here), (self._table.epochs - epoch) // self._table.train_interval)
        elif self._pool is not None and not self._table.lag and len(there) == _THERE:
            self._look_back(self._pool, min(here), min(there))

    def _look_ahead(self, took: float, left: int) -> None:
        collecting = self._record.seconds["collecting"]
        gain = min(took, collecting) if self._table.lag else took * (1 - 1 / self._workers)
        if gain * left <= _STARTING:
            self._workers = 0
            self._record.note(
                f"agents are trained here: a training of all takes {took * 1e3:.0f} ms, with {left} to go, and workers "
                "would not pay for their start; num_workers says otherwise"
            )

    def _look_back(self, pool: Pool, here: float, there: float) -> None:
        """Has all trained here again if that is quicker. With no lag models are what their copies are already."""
        if there < _WORTH * here:
            return
        away = [each for each in self._all if each.in_pool and each.name not in self._record.failures]
        outcomes = pool.call("states", {each.number: () for each in away}, outcomes=True)
        if any(error is not None for _, error in outcomes.values()):
            return  # an agent whose worker is lost fails when it is trained, as on_failure says
        self._record.note(
            f"agents are trained here again: a training of all takes {there * 1e3:.0f} ms in workers and "
            f"{here * 1e3:.0f} ms here; num_workers says otherwise"
        )
        for number, (states, _) in outcomes.items():
            if states is not None:
                self._streams.put(self._all[number].owner, states)
        self._workers = 0
        self._close_pool()

    def _started(self) -> Pool | None:
        """The pool of learners; None if there can be none."""
        if self._pool is None:
            backend, config = "thread" if self._config.use_threads else "process", self._config
            try:
                self._pool = Pool(
                    [partial(Learner, each.name, config.on_failure) for each in self._all],
                    backend=backend,
                    workers=self._workers,
                    restarts=_TRIES,
                    deadline=None if config.use_threads else config.deadline,
                )
            except (PlanNotMet, OSError) as error:
                self._record.note(f"agents are trained in order, because there can be no workers: {error}")
                self._workers = 0
        return self._pool

    # -- out ---------------------------------------------------------------------------------------------------

    def _post(self, each: _Trainee, update: Update) -> None:
        if each.name in self._record.failures:
            update.status, update.reason = "skipped", FROZEN
            each.pending.append((update, None))
            return
        if each.away:
            assert self._pool is not None
            assert each.replica is not None
            call = {each.number: (each.replica.changes(),)}
            each.pending.append((update, self._pool.post("learn", call)))
            if self._table.lag and self._config.use_threads:
                self._streams.hold_still(True)
        else:
            each.pending.append((update, self._here(each)))
        each.trained += 1

    def _is_there(self, each: _Trainee) -> bool:
        """Whether a copy of the model is in the pool; it is brought there if it is not.

        A thread is given no streams: to swap them in would swap them for the turn that is played meanwhile.
        """
        if each.in_pool:
            return True
        pool = self._started()
        if pool is None:
            return False
        try:
            threads = self._config.use_threads
            if each.copy is not None:
                replica, states = each.copy.snapshot()
                pool.call("restore", {each.number: ((replica, None if threads else states),)})
                each.copy = None
            else:
                states = None if threads else self._streams.states(each.owner)
                each.replica = Replica(each.model, "main", strict=not self._table.lag)
                _check_copy(each.replica, pool.call("begin", {each.number: (Sent(each.model), states)})[each.number])
        except Exception as error:
            self._stay(each, error)
            return False
        each.in_pool = True
        return True

    def _here(self, each: _Trainee) -> Learned:
        if not self._table.lag:
            return self._in_order(each)
        if each.copy is None:
            each.copy = Learner(each.name, self._config.on_failure)
            try:
                each.replica = Replica(each.model, "main", strict=False)
                begun = each.copy.begin(copied(each.model), self._streams.states(each.owner))
                _check_copy(each.replica, begun.answer)
            except Exception as error:
                self._stay(each, error)
        assert each.replica is not None
        with self._says_whose(each):
            return self._noted(each, each.copy.learn(each.replica.changes()))

    def _in_order(self, each: _Trainee) -> Learned:
        """Trains the caller's own object."""
        policy, each.in_pool = self._config.on_failure, False
        replica = None
        if policy == "retry":
            try:
                replica = Replica(each.model, "main")
            except NotSendable as error:
                self._record.note(f"a training of {each.name} that fails is not tried again: {error}")
                policy = "freeze"
        with self._says_whose(each):
            return self._noted(each, train(each.model, replica, each.name, policy, self._streams, each.owner))

    @staticmethod
    def _noted(each: _Trainee, learned: Learned) -> Learned:
        each.drew |= learned.drew
        return learned

    # -- in ----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Waits for all workers: one that has failed is trained again here, and that swaps generators."""
        begin = perf_counter()
        for each in self._all:
            for _, answer in each.pending:
                if isinstance(answer, Handle):
                    answer.finish()
        self._record.seconds["learning"] += perf_counter() - begin

    def _settle(self, version: int) -> None:
        begin = perf_counter()
        while behind := [each for each in self._all if each.done < version]:
            for each in behind:
                self._take(each, *each.pending.popleft())
        self._record.seconds["learning"] += perf_counter() - begin

    def _take(self, each: _Trainee, update: Update, answer: Learned | Handle | None) -> None:
        each.done += 1
        self._record.updates.append(update)
        if isinstance(answer, Handle):
            answer = self._answer(each, answer)
        if answer is None:
            return
        if each.name in self._record.failures:  # it was under way when the failure was not known yet
            update.status, update.reason = "skipped", FROZEN
            return
        if each.replica is not None and answer.changes:
            self._take_over(each, answer.changes)
        if answer.failure is not None:
            self._record.failures[each.name] = answer.failure
            what = answer.failure.message
            self._record.note(f"training {update.number} of {each.name} failed, and it is not trained any more: {what}")
            update.status, update.reason = "failed", f"{answer.failure.kind}: {what}"
            return
        update.figures = dict(answer.figures)

    def _take_over(self, each: _Trainee, changes: bytes) -> None:
        assert each.replica is not None
        try:
            each.replica.apply(changes, self._shared or ())
        except PacelineError as error:
            error.add_note(
                f"in a training of {each.name}; parallel_training and async_learning need models of their own"
            )
            raise

    def _answer(self, each: _Trainee, handle: Handle) -> Learned:
        handle.finish()
        answer, error = handle.outcomes()[each.number]
        if error is None:
            return self._noted(each, answer)
        if isinstance(error, SharedRandomness) and not self._table.lag:
            each.drew = each.stays = True
            self._record.note(f"{each.name} is trained in order from now on: {error}")
            return self._in_order(each)
        if self._config.on_failure == "fail" or isinstance(error, SharedRandomness):
            with self._says_whose(each):
                raise error
        return Learned(failure=Failure.of(error, each.name))

    @contextmanager
    def _says_whose(self, each: _Trainee) -> Iterator[None]:
        """What is raised says whose training it was, and how to go on, where that is possible."""
        try:
            yield
        except Exception as error:
            settled = self._config.on_failure != "fail" or isinstance(error, _ALWAYS_RAISED)
            way = "" if settled else "; on_failure: freeze would go on with its last weights"
            error.add_note(f"in a training of {each.name}{way}")
            raise


def _check_copy(replica: Replica, names: Any) -> None:
    if names != replica.names():
        raise NotSendable(
            "a pickled copy of its model is not built like the model: a part was left out, or arrays that share memory "
            "(views, a state_dict) do not any more"
        )
