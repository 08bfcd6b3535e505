"""Data loaders and executors of releases 1.8 to 2.3, with settings that later became flags or cluster settings."""

from collections.abc import Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.utils import data
from cstorch_compat.cerebras.pytorch.utils.data.synthetic import compute_num_steps
from cstorch_compat.generations.early.cs_config import CSConfig
from cstorch_compat.run import process, setting_checks, settings
from cstorch_compat.run.warnings_at_line import warn
from cstorch_compat.summaries.summary import SummaryWriter

configured_checkpoint_steps = process.RunLocal(lambda: 0)
"""The checkpoint interval in steps given to `configure` of release 1.8; 0 for none."""


def DataLoader(input_fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a data loader over an input function.

    With a number of steps or epochs (`STEP_ARGUMENTS`), as in release 1.8, it is a `SteppedLoader`, which is iterated
    directly. Otherwise it is a current `DataLoader` for a DataExecutor.
    """
    steps = {k: kwargs.pop(k) for k in list(kwargs) if k in STEP_ARGUMENTS}
    loader = data.DataLoader(input_fn, *args, **kwargs)
    return SteppedLoader(loader, **steps) if steps else loader


STEP_ARGUMENTS = ("num_steps", "max_steps", "num_epochs", "steps_per_epoch", "initial_step")
"""The arguments of `DataLoader` that determine the number of steps."""


class SteppedLoader:
    """A loader whose iteration is the run. Other attributes are those of the wrapped loader.

    The number of steps is computed by `compute_num_steps`: min(num_steps, max_steps), or min(num_epochs *
    steps_per_epoch, max_steps). With epochs, one loop runs the steps of all epochs; if it is left early, the next loop
    runs the remaining steps. Raises ValueError for contradictory numbers.
    """

    def __init__(self, loader: data.DataLoader, initial_step: int = 0, **steps: Any):
        self.loader = loader
        self.num_epochs = steps.get("num_epochs") or 1
        self.num_steps = compute_num_steps(loader, initial_step, **steps)
        self._left = self.num_steps
        self._is_in_epochs = steps.get("num_epochs") is not None
        self.batch: Any = None
        self.is_mistaken = False

    def __len__(self) -> int:
        return self.num_steps

    def __iter__(self) -> Iterator[Any]:
        steps = self._left if self._is_in_epochs else self.num_steps
        if not steps:
            return
        executor = _SteppedExecutor(self.loader, num_steps=steps, checkpoint_steps=configured_checkpoint_steps.value)
        for batch in executor:
            self.batch = batch
            yield batch
            # Count the steps that remain for a second loop over this loader.
            self._left = steps - executor.user_iteration
        self.batch = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.loader.dataloader, name)


class _SteppedExecutor(data.DataExecutor):
    """The executor of such a loop. Its checkpoint steps are counted both from 0 and from 1.

    The documentation of release 1.8 counts from 0, and its scripts count from 1.
    """

    def fetches_after(self, step: int) -> bool:
        every = configured_checkpoint_steps.value
        return super().fetches_after(step) or (every > 0 and (step - 1) % every == 0)


def resolve_batch(argument: Any, step: str) -> Any:
    """Return the current batch if `argument` is a SteppedLoader in a loop, else `argument`.

    The first replacement for each loader issues a warning that names the function `step`.
    """
    if not isinstance(argument, SteppedLoader) or argument.batch is None:
        return argument
    if not argument.is_mistaken:
        argument.is_mistaken = True
        warn(f"{step} got the data loader and uses its current batch: pass the batch of the loop instead.")
    return argument.batch


class _EarlyExecutor(data.DataExecutor):
    """The base class of executors with settings of older releases."""

    writer: SummaryWriter | None = None

    def _take(self, cs_config: Any = None, writer: Any = None, **unused: Any) -> None:
        """Check and store settings that the current executor does not accept.

        A `cs_config` takes effect on the backend. Settings in `unused` are reported as having no effect, unless they
        are false, such as None or 0. Raises TypeError if `cs_config` or `writer` has the wrong type.
        """
        for name, value, kind in (("cs_config", cs_config, CSConfig), ("writer", writer, SummaryWriter)):
            if value is not None and not isinstance(value, kind):
                raise TypeError(
                    f"Expected {name} to be an instance of {kind.__name__}. Got: {type(value)}"
                    "\n  Pass an object of this class."
                )
        if cs_config is not None:
            # Apply it before the first batch, which starts the workers.
            cs_config.take_effect(process.current_backend())
        settings.note_without_effect("DataExecutor", {name: value or None for name, value in unused.items()})
        self.writer = writer

    def _cut(self, micro_batch_size: Any) -> None:
        """Set the current flag for the micro-batch size, for the whole run.

        Raises ValueError for "explore", a search for the best size, unless the backend only compiles. The flag is set
        then too.
        """
        process.RUN.flags.performance.micro_batch_size = micro_batch_size
        if settings.is_micro_batch_search():
            message = "micro_batch_size == 'explore' is only supported in compile_only mode."
            hint = "Create the backend with compile_only=True, or plan the script with lazywafer plan."
            raise setting_checks.make_value_error("micro_batch_size", micro_batch_size, message, hint)


def _require_num_steps(num_steps: int | None) -> int:
    if num_steps is None:
        raise RuntimeError(f"Expected num_steps >= 1, but got {num_steps}\n  Pass a positive num_steps.")
    return num_steps


class DataExecutor_1_9(_EarlyExecutor):
    """The executor of release 1.9. `num_steps` is required."""

    def __init__(
        self,
        dataloader: Any,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        cs_config: Any = None,
        writer: Any = None,
    ):
        super().__init__(dataloader, _require_num_steps(num_steps), checkpoint_steps)
        self._take(cs_config, writer)


class DataExecutor_2_0(_EarlyExecutor):
    """The executor of release 2.0. `num_steps` is required."""

    def __init__(
        self,
        dataloader: Any,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        cs_config: Any = None,
        writer: Any = None,
        additional_activities: Any = None,
    ):
        super().__init__(dataloader, _require_num_steps(num_steps), checkpoint_steps)
        self._take(cs_config, writer, additional_activities=additional_activities)


class DataExecutor_2_1(_EarlyExecutor):
    """The executor of release 2.1. `num_steps` is required."""

    def __init__(
        self,
        dataloader: Any,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        cs_config: Any = None,
        writer: Any = None,
        additional_activities: Any = None,
        activation_steps: int | None = None,
        listeners: Any = None,
    ):
        super().__init__(dataloader, _require_num_steps(num_steps), checkpoint_steps, activation_steps)
        self._take(cs_config, writer, additional_activities=additional_activities, listeners=listeners)


class DataExecutor_2_2(_EarlyExecutor):
    """The executor of release 2.2, which also takes the micro-batch size."""

    def __init__(
        self,
        dataloader: Any,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        activation_steps: int | None = None,
        cs_config: Any = None,
        writer: Any = None,
        listeners: Any = None,
        micro_batch_size: Any = "auto",
        profiler_activities: Any = None,
    ):
        super().__init__(dataloader, num_steps, checkpoint_steps, activation_steps, profiler_activities)
        self._take(cs_config, writer, listeners=listeners)
        self._cut(micro_batch_size)


class DataExecutor_2_3(_EarlyExecutor):
    """The executor of release 2.3, which takes the micro-batch size and no `cs_config`."""

    def __init__(
        self,
        dataloader: Any,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        activation_steps: int | None = None,
        writer: Any = None,
        listeners: Any = None,
        micro_batch_size: Any = "auto",
        profiler_activities: Any = None,
    ):
        super().__init__(dataloader, num_steps, checkpoint_steps, activation_steps, profiler_activities)
        self._take(None, writer, listeners=listeners)
        self._cut(micro_batch_size)
