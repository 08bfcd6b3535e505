"""The executor of a run, which iterates over the steps of a loop."""

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, SupportsIndex

from cstorch_compat.cerebras.pytorch.utils.data.batch import BatchForm
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.profiling import spans
from cstorch_compat.profiling.op_profile import ProfilerRegistry
from cstorch_compat.profiling.progress import Progress
from cstorch_compat.profiling.rates import Profiler
from cstorch_compat.run import process, setting_checks, settings
from cstorch_compat.run.setting_checks import StepsInvalid
from cstorch_compat.run.steps import run_waiting_calls
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core import source

_END_OF_STREAM = object()
"""A marker for the end of the batch stream."""
MbsSetting = int | dict[str, Any] | Literal["auto", "explore"] | None
"""The type of the flag `backends.csx.performance.micro_batch_size`."""


class DataExecutor:
    """An iterable over the batches of a run, one for each step. It restarts the loader when it is exhausted.

    - `dataloader`: a `cstorch.utils.data.DataLoader`; others raise TypeError.
    - `num_steps`: the number of steps; the length of the loader if None.
    - `checkpoint_steps`: the interval in steps after which state can be fetched, also after the last step; 0 or None
      for never. A `Schedule` lists the steps, counted from 0.
    - `activation_steps`: checked and without effect.
    - `profiler_activities`: passed to the `Profiler` of the loop, which is the attribute `profiler`.

    With compile_only or validate_only only one step is traced. Raises RuntimeError without a backend. Raises ValueError
    or TypeError for invalid numbers of steps, and RuntimeError if the number is missing and the loader has no length.
    """

    def __init__(
        self,
        dataloader: DataLoader,
        num_steps: int | None = None,
        checkpoint_steps: int | Schedule | None = None,
        activation_steps: int | None = None,
        profiler_activities: Any = None,
    ):
        self.dataloader = _require_loader(dataloader)
        with reraise_as_builtin():
            self.checkpoint_steps = _check_checkpoint_steps(checkpoint_steps)
            self.num_steps = _resolve_num_steps(dataloader, num_steps, checkpoint_steps)
            self.activation_steps = setting_checks.make_interval_check(1)("activation_steps", activation_steps)
        settings.note_without_effect("DataExecutor", {"activation_steps": self.activation_steps})
        self.iteration = -1
        self.model: Any = None  # the prepared model that the loop called
        self.session: Any = None
        self.profiler: Profiler | None = None
        self._folder: pathlib.Path | None = None
        self._profiler_activities = profiler_activities
        # As in the original, a missing backend is an error here and not only in the loop.
        owner = process.current_backend()
        # Nothing is executed, so all steps would be traced alike.
        if not owner.is_e2e_execution and self.num_steps != 1:
            warn("Only one step is traced, because the backend was made with compile_only or validate_only.")
            self.num_steps = 1
        self.checkpoint_schedule = _make_checkpoint_schedule(self.checkpoint_steps, self.num_steps)

    @property
    def user_iteration(self) -> int:
        """Return the number of the current step, counted from 1."""
        return self.iteration + 1

    @property
    def is_initial_step(self) -> bool:
        """Return whether the current step is the first one."""
        return self.iteration == 0

    @property
    def on_final_iteration(self) -> bool:
        """Return whether the current step is the last one."""
        return self.iteration >= self.num_steps - 1

    @property
    def is_checkpoint_step(self) -> bool:
        """Return whether state can be fetched after the current step."""
        return self.fetches_after(self.user_iteration)

    def fetches_after(self, step: int) -> bool:
        """Return whether state can be fetched after step number `step`, counted from 1."""
        return self.checkpoint_schedule is not None and self.checkpoint_schedule.match(step - 1)

    def next_checkpoint_step(self) -> int | None:
        """Return the first step, from the current one on, after which state can be fetched, as a number counted from 1.

        Returns None if there is no such step.
        """
        schedule = self.checkpoint_schedule
        if schedule is None or schedule.final_step is None or schedule.final_step < self.iteration:
            return None
        return (schedule.next_immediate_step(self.iteration) or 0) + 1

    @property
    def artifact_dir(self) -> pathlib.Path:
        """Return the folder of this execution, and create it if it does not exist.

        Raises RuntimeError before the iteration has begun.
        """
        if self._folder is None:
            raise RuntimeError(
                "DataExecutor must be iterated before having an artifact directory."
                "\n  Iterate over the DataExecutor first."
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def __len__(self) -> int:
        return self.num_steps

    def __iter__(self) -> Iterator[Any]:
        settings.print_unused()
        self.iteration, self.model = -1, None
        owner = process.current_backend()
        # Masks of sparse parameters are created here: the optimizer's state exists, and no step has run.
        for prepare in owner.before_loop:
            prepare()
        self.profiler = Profiler(self._profiler_activities)
        self._folder = owner.next_folder()
        self.session = owner.session()
        # A loop may run inside a closure of another loop, whose executor becomes current again afterwards.
        before = process.enter_executor(self)
        try:
            with reraise_as_builtin():
                yield from self._steps(self.profiler, self._folder)
        finally:
            self.session.close()
            process.leave_executor(self, before)

    def _steps(self, profiler: Profiler, folder: pathlib.Path) -> Iterator[Any]:
        """Yield the batches of a loop, and begin and end the session's step around each iteration.

        The number of steps is limited by the option `steps` of the run. At the end, also after an error, the loader is
        released, the measured rates are appended to the backend's loops, and saved in `folder` if that exists.
        """
        steps = min(self.num_steps, process.RUN.options.steps or self.num_steps)
        if not steps:
            return
        owner, profile = process.current_backend(), ProfilerRegistry.get_profiler()
        if profile is not None:
            profile.configure_profiler(owner.is_csx, self.num_steps)
        # The stream is opened here, so that workers start only if the loop runs.
        stream, form = self.dataloader.stream(steps, self.checkpoint_schedule), BatchForm()
        progress = Progress(self.num_steps, process.RUN.options.progress)
        try:
            # The range comes first in zip, so that no batch is requested after the last step.
            for i, batch in zip(range(steps), _time_waits(stream), strict=False):
                self.iteration = i
                size = form.check(batch)
                stream.count(size or 0)
                # Keep the state before the step runs, because closures after the step may request it.
                if self.is_checkpoint_step:
                    self.dataloader.keep(stream, i + 1)
                if self.is_initial_step:
                    run_waiting_calls()
                # The loop's body runs during the yield.
                with spans.record_span(spans.STEP_LANE, f"step {i + 1}", step=i + 1):
                    with spans.record_span(spans.STEP_LANE, "loop body"):
                        seen = self.session.begin(batch)
                        if self.is_initial_step:
                            for begin in owner.at_first_step:
                                begin()
                        yield seen
                    profiler.step(size)
                    self.session.end(i + 1, self.is_checkpoint_step, self.next_checkpoint_step)
                spans.count_samples(size or 0)
                # The first step includes compilation, so the rates exclude it.
                if self.is_initial_step:
                    profiler.compiled()
                progress.step(i + 1)
            self.session.flush()
            # As in the original, the counter is one past the last step after the loop.
            self.iteration += 1
            if profile is not None and owner.reports:
                profile.take(owner.reports[-1])
        finally:
            self.dataloader.release(stream)
            progress.close()
            profiler.end(stream.waits)
            owner.loops.append(profiler)
            # The folder exists only if the execution wrote files to it.
            if folder.exists():
                profiler.save(folder)


def _time_waits(stream: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a stream, and record the time spent waiting for each as a span."""
    batches = iter(stream)
    while True:
        with spans.record_span(spans.STEP_LANE, "wait for input"):
            batch = next(batches, _END_OF_STREAM)
        if batch is _END_OF_STREAM:
            return
        yield batch


def _require_loader(dataloader: Any) -> DataLoader:
    if not isinstance(dataloader, DataLoader):
        raise TypeError(
            "Detected that dataloader was not wrapped using a cstorch.utils.data.DataLoader.\nPlease wrap your "
            "dataloader in a Cerebras Dataloader:\n\n\tdataloader = cstorch.utils.data.DataLoader(input_fn, ...)\n\n"
            "where `input_fn` is a callable that returns a PyTorch dataloader."
            "\n  Wrap the dataloader in cstorch.utils.data.DataLoader."
        )
    return dataloader


def _resolve_num_steps(dataloader: DataLoader, num_steps: Any, checkpoint_steps: Any) -> int:
    """Return the number of steps as an int: `num_steps`, or the length of the loader if it is None.

    Raises RuntimeError if the loader has no length, StepsInvalid below 1, and ValueError or TypeError for other invalid
    values.
    """
    if num_steps is None:
        try:
            return len(dataloader)
        except TypeError as e:
            raise RuntimeError(
                "Could not infer the number of steps as the length of the dataloader is not known. Please provide "
                "num_steps to the data executor"
                "\n  Pass num_steps."
            ) from e
    if isinstance(num_steps, int | float) and num_steps < 1:
        hint = "Give 1 or more steps, or leave num_steps out for one pass over the loader."
        message = f"Expected num_steps >= 1, but got {num_steps}."
        raise StepsInvalid(f"num_steps is {num_steps!r}", where=source.where(), hint=hint, lead=message)
    # Release 2.10 accepts 2.0 as 2, unless it has to count checkpoint steps.
    if isinstance(num_steps, float) and (not num_steps.is_integer() or checkpoint_steps):
        message = f"end ({num_steps}) must be an integer"
        raise setting_checks.make_value_error("num_steps", num_steps, message, "Give a whole number of steps.")
    if not isinstance(num_steps, float | SupportsIndex):
        message = f"{type(num_steps).__name__!r} object cannot be interpreted as an integer"
        raise setting_checks.make_type_error("num_steps", num_steps, message, "Give a whole number of steps.")
    return int(num_steps)


def _check_checkpoint_steps(value: Any) -> int | Schedule | None:
    """Return `value` if it is a Schedule, None or an integer of at least 0, the interval in steps.

    Raises ValueError for other values.
    """
    if isinstance(value, Schedule):
        return value
    if not isinstance(value, int | None):
        message = f"checkpoint_steps must be None, integer, or a Schedule, but got {value}."
        raise setting_checks.make_value_error(
            "checkpoint_steps", value, message, "Give a whole number of steps, or None."
        )
    steps: int | None = setting_checks.make_interval_check(0)("checkpoint_steps", value)
    return steps


def _make_checkpoint_schedule(checkpoint_steps: int | Schedule | None, num_steps: int) -> Schedule | None:
    """Return the schedule of the steps, counted from 0, after which state can be fetched, or None if there are none.

    An int gives the last step of every interval of that length, and the last of `num_steps`. An int of 0, or no steps,
    gives None. A Schedule is returned unchanged.
    """
    if not isinstance(checkpoint_steps, int):
        return checkpoint_steps
    return Schedule.every(checkpoint_steps, num_steps) if checkpoint_steps and num_steps else None
