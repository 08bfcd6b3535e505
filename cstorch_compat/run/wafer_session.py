"""The session of the CSX backend: the body is traced in the first step, and later steps run the compiled program.

A step ends when the loop requests the next batch. Values can be read in closures only. Client and server run in one
thread: separate threads would add races without changing results.
"""

import functools
import itertools
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.profiling import spans
from cstorch_compat.run.closures import ClosureCall, ClosureQueue
from cstorch_compat.run.session import ExecutionSession, NextCheckpoint
from cstorch_compat.run.state_checks import find_late_state
from cstorch_compat.run.wafer_state import LAZY_DEVICE, WaferState
from lazytensor import config
from lazytensor.cirh.generic import ATEN_DIALECT, CIRH_DIALECT, generic_text
from lazytensor.cirh.printer import StateNotes, torch_text
from lazytensor.compiler.pipeline import Compilation, Heading
from lazytensor.core import autocast, source
from lazytensor.core import storage as cells
from lazytensor.core.capture import Capture
from lazytensor.core.dtype import DType, cbfloat16, float32
from lazytensor.core.life_cycle import LifeCycle, Transition
from lazytensor.core.step import StepRunner
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import CPU, Tensor, tensor_from_storage
from lazytensor.errors import StateError, TraceError
from lazytensor.hlo.printer import hlo_generic_text, hlo_text
from lazytensor.ir.graph import Graph, Node, distinct_uses, leaf, merge_equal_nodes
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast
from lazytensor.runtime.backend import Executable


@dataclass(frozen=True)
class WaferSettings:
    """The settings of a CSX session.

    folder: the folder for the MLIR texts
    half: the 16-bit type of mixed precision
    execute: "all", "compile" (stop after planning the first step) or "trace" (stop after lowering it)
    closure_lag: number of steps by which closures are delayed
    strict: whether state that is first made inside the step is an error instead of a warning
    notes: facts on state for the compiler, by state name
    level: the precision optimization level
    planning: micro-batching and the number of systems
    retrace: whether the body is traced in every step
    compile_dir: the folder for compiled kernels; "" for the cache folder
    widen_cbfloat16: whether closures get float32 for cbfloat16; otherwise cbfloat16 arguments raise TraceError
    arrivals: functions that are called with each fetched tensor and its name
    """

    folder: pathlib.Path
    half: DType
    execute: str = "all"
    closure_lag: int = 0
    strict: bool = False
    notes: StateNotes = field(default_factory=dict)
    level: int = 1
    planning: tuple[MicroBatching, int] = (AUTO, 1)
    retrace: bool = False
    compile_dir: str = ""
    widen_cbfloat16: bool = False
    arrivals: Mapping[int, Callable[[Any, str], None]] = field(default_factory=dict)


class SessionPhase(Enum):
    """The phase of a session. The value is the text in error messages."""

    OPEN = "waiting for its first batch"
    TRACING = "tracing a step"
    RUNNING = "running its program"
    SKIPPED = "over after its first step was traced or compiled"
    CLOSED = "closed"


SESSION_LIFE_CYCLE = LifeCycle(
    "a session",
    (
        Transition(
            SessionPhase.OPEN,
            "trace",
            SessionPhase.TRACING,
            "there is no program yet, so the body of the step is traced",
        ),
        Transition(
            SessionPhase.TRACING,
            "run",
            SessionPhase.RUNNING,
            "the step is compiled, and executed on its own batch first",
        ),
        Transition(
            SessionPhase.TRACING,
            "skip",
            SessionPhase.SKIPPED,
            "the backend was made with validate_only or compile_only",
        ),
        Transition(
            SessionPhase.RUNNING,
            "replay",
            SessionPhase.RUNNING,
            "the body is not run again: its tensors belong to the new step",
        ),
        Transition(
            SessionPhase.RUNNING, "run", SessionPhase.RUNNING, "later steps run the same program on their batches"
        ),
        Transition(
            SessionPhase.RUNNING,
            "trace",
            SessionPhase.TRACING,
            "the flag retrace_every_iteration, or a loop without functions",
        ),
        Transition(SessionPhase.OPEN, "close", SessionPhase.CLOSED, "the loop had no step"),
        Transition(SessionPhase.TRACING, "close", SessionPhase.CLOSED, "the loop was left in its first step"),
        Transition(SessionPhase.RUNNING, "close", SessionPhase.CLOSED, "the loop is over"),
        Transition(SessionPhase.SKIPPED, "close", SessionPhase.CLOSED, "the loop is over"),
        Transition(
            SessionPhase.CLOSED,
            "close",
            SessionPhase.CLOSED,
            "a restarted run closes the session, and its loop closes it once more",
        ),
    ),
)
"""The allowed transitions of a session. Any other transition raises TraceError."""


@dataclass(frozen=True)
class TracedStep:
    """A step that is being traced or was traced.

    capture: the capture of its operations
    batch: the batch as tensors on the device
    results: the result of each traced function; later steps return the same tensors
    closure_calls: the closure calls of each traced function, which later steps queue again
    last_calls: the closure calls at the end of the trace
    """

    capture: Capture
    batch: Any
    results: dict[Callable[..., Any], Any] = field(default_factory=dict)
    closure_calls: dict[Callable[..., Any], list[ClosureCall]] = field(default_factory=dict)
    last_calls: list[ClosureCall] = field(default_factory=list)


ViewIdentity = tuple[int, tuple[Any, ...]]
"""Identifies the value of a tensor: the id of its storage, and its view operations."""


@dataclass(frozen=True)
class CompiledStep:
    """A compiled step with its program.

    step, graph, executable: the traced step, its graph, and the compiled program
    outputs: the values that the program returns for closures
    waiting: the outputs that are whole storages created in the step; these get the value between steps
    """

    step: TracedStep
    graph: Graph
    executable: Executable
    outputs: tuple[ViewIdentity, ...]
    waiting: tuple[tuple[ViewIdentity, Storage], ...]

    @classmethod
    def of(
        cls, step: TracedStep, graph: Graph, outputs: dict[ViewIdentity, tuple[str, Tensor]], executable: Executable
    ) -> "CompiledStep":
        """Return the compiled step for a traced step and its outputs.

        `outputs` has the name and tensor of each value.
        """
        # A view, or a storage that existed before the step, gets no value: its base holds the value.
        cells = step.capture.cells
        outside = {id(cell) for cell, *_ in (*cells.inputs, *cells.touched)}
        waiting = ((k, t.cell) for k, (_, t) in outputs.items() if not t.view_ops and id(t.cell) not in outside)
        return cls(step, graph, executable, tuple(outputs), tuple(waiting))


class WaferSession(ExecutionSession):
    """The execution of one loop on the wafer. `on_compiled` is called once with each compiled program.

    phase: the phase in SESSION_LIFE_CYCLE
    stage: the traced or compiled step; None before the first batch
    """

    CAPTURE = Capture

    def __init__(
        self, runner: StepRunner, state: WaferState, settings: WaferSettings, on_compiled: Callable[[Compilation], None]
    ):
        self.runner, self.state, self.settings, self.on_compiled = runner, state, settings, on_compiled
        self.closures = ClosureQueue(settings.closure_lag)
        self.phase = SessionPhase.OPEN
        self.stage: TracedStep | CompiledStep | None = None
        self._arrays: list[np.ndarray] = []
        self._reported: list[Executable] = []

    @property
    def step(self) -> TracedStep:
        """The traced step of the loop. Raises TraceError before the first batch."""
        if self.stage is None:
            raise TraceError(
                f"the session is {self.phase.value} and has no step",
                where=source.where(),
                hint="Use it in the loop over a DataExecutor.",
            )
        return self.stage.step if isinstance(self.stage, CompiledStep) else self.stage

    def _move(self, event: str) -> None:
        """Change the phase by an event of SESSION_LIFE_CYCLE."""
        self.phase = SESSION_LIFE_CYCLE.after(self.phase, event)

    def begin(self, batch: Any) -> Any:
        """Start a step with `batch` and return the batch as tensors on the device, without values on the client.

        The first step starts a trace, and every step does if `settings.retrace`. Other steps return the tensors of the
        traced batch again.
        """
        # `enter_capture_with_batch` numbers the inputs of the step in the same order.
        self._arrays = [t.array() for _, t in flatten(batch)]
        if isinstance(self.stage, CompiledStep) and not self.settings.retrace:
            self._move("replay")
            self.stage.step.capture.hide()
            return self.stage.step.batch
        # Test the transition before entering the capture and store it afterwards, so that an invalid batch does not
        # change the session.
        then = SESSION_LIFE_CYCLE.after(self.phase, "trace")
        capture = self.CAPTURE(self.state, readable=False)
        self.stage = TracedStep(capture, enter_capture_with_batch(capture, batch))
        if self.phase is SessionPhase.OPEN:
            self.state.start()
        self.phase = then
        return self.stage.batch

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace `step_fn` in the first step and return its result. In later steps return the same tensors again.

        Later steps also queue the closure calls of the function again. Raises TraceError for a function that is first
        called after the first step.
        """
        step = self.step
        if step_fn in step.results:
            # The body does not run again, so queue its closure calls here.
            self.closures.queue += step.closure_calls[step_fn]
            return step.results[step_fn]
        if self.phase is not SessionPhase.TRACING:
            raise TraceError(
                "a traced function was called for the first time after the first step",
                where=source.where(),
                hint="Call every @cstorch.trace function in the first iteration of the loop.",
            )
        # Calls queued from here on belong to this function and are replayed with it.
        before = len(self.closures.queue)
        noted = spans.record_span(spans.STEP_LANE, "trace")
        casts = autocast.autocast(self.settings.half)
        with noted, step.capture.recording(), casts, distinct_uses(), source.record_call_frames():
            result = step_fn(*args, **kwargs)
        step.results[step_fn], step.closure_calls[step_fn] = result, self.closures.queue[before:]
        return result

    def bind(self, arguments: Any) -> Any:
        """Return the arguments of a closure unchanged: their last value in the step counts.

        Raises TraceError for a cbfloat16 tensor unless `settings.widen_cbfloat16`.
        """
        for _, t in flatten(arguments):
            if t.dtype is cbfloat16 and not self.settings.widen_cbfloat16:
                raise TraceError(
                    f"a closure takes a {t.spec}, which cannot be fetched: the client does not have this dtype",
                    where=source.where(),
                    hint="Pass tensor.to(torch.float32), or enable "
                    "cstorch.backends.csx.debug.implicit_cast_cb16_to_fp32.",
                )
        return arguments

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Execute the step on its batch and run its closures.

        The first step is lowered and compiled before. If `settings.execute` is "trace" or "compile", the step is
        discarded after lowering or compiling.
        """
        if isinstance(self.stage, CompiledStep):
            self.closures.queue += self.step.last_calls
        else:
            with spans.record_span(spans.STEP_LANE, "lower"):
                graph, outputs = self._traced(self.step)
                compilation = self._compilation(graph)
            if self.settings.execute == "trace":
                self._skip()
                return
            with spans.record_span(spans.STEP_LANE, "compile"):
                self.stage = CompiledStep.of(self.step, graph, outputs, self._compile_executable(compilation))
            if self.settings.execute == "compile":
                self._skip()
                return
        self._move("run")
        program = self.stage
        # Copy, because the executable overwrites these arrays in the next step.
        with spans.record_span(spans.STEP_LANE, "execute on the host", step=step):
            spans.record_wafer_step(step, program.executable)
            values = [v.copy() for v in program.executable.step(self._arrays)]
        fetches = dict(zip(program.outputs, values, strict=True))
        self._report_arrivals(program, values)
        self.state.finish_step(is_checkpoint)
        program.step.capture.reveal([cell for _, cell in program.waiting], [fetches[k] for k, _ in program.waiting])
        self.state.on_client |= program.step.capture.client_state
        # After reveal, which returns the state to its store: closures see the state of this step.
        within = self._closure_state_access(program.step.capture, is_checkpoint, next_checkpoint)
        seen = functools.partial(fetch_to_client, fetches)
        self.closures.run(step, is_checkpoint, lambda arguments: map_tensors(arguments, seen), within)

    def _report_arrivals(self, program: CompiledStep, values: list[np.ndarray]) -> None:
        """Call the functions of `settings.arrivals` with each value of `values`, as a tensor, and its name."""
        for tell in tuple(self.settings.arrivals.values()):
            for name, node, value in zip(program.graph.output_names, program.graph.outputs, values, strict=True):
                tell(tensor_from_storage(Storage(leaf(value, node.type))), name)

    def _skip(self) -> None:
        """Discard the step, which will not be executed, and its closure calls."""
        self._move("skip")
        self.closures.queue.clear()
        self.step.capture.leave()

    def _compilation(self, graph: Graph) -> Compilation:
        """Return the compilation of a step's graph and write its MLIR texts."""
        notes = tuple((state, tuple(known.items())) for state, known in self.settings.notes.items())
        heading = Heading(
            self.settings.half.name, self.settings.level, notes, locations=True, planning=self.settings.planning
        )
        compilation = self.runner.compilation(graph, heading)
        self._write_texts(graph, compilation)
        return compilation

    def _compile_executable(self, compilation: Compilation) -> Executable:
        """Compile the program and report it. Kernels are cached in `settings.compile_dir` if it is given."""
        # The compiler takes the cache folder from the configuration.
        with config.override(cache=self.settings.compile_dir or config.current().cache):
            executable = compilation.executable
        self._report_compilation(compilation)
        return executable

    def _report_compilation(self, compilation: Compilation) -> None:
        """Call `on_compiled` with a compilation, once per executable."""
        if compilation.executable not in self._reported:
            self._reported.append(compilation.executable)
            self.on_compiled(compilation)

    def _closure_state_access(
        self, capture: Capture, is_checkpoint: bool, next_checkpoint: NextCheckpoint
    ) -> AbstractContextManager[None]:
        """Return the context for the closures of this step: all state on a checkpoint step, otherwise none.

        Reading state on another step raises StateError with a hint on the next checkpoint step.
        """
        if not is_checkpoint:
            return self.state.window(functools.partial(make_checkpoint_hint, next_checkpoint()))
        return (
            self._late_closure_state_access(capture, self.state.snapshot())
            if self.closures.lag
            else self.state.window(None)
        )

    @contextmanager
    def _late_closure_state_access(self, capture: Capture, snapshot: dict[str, np.ndarray]) -> Iterator[None]:
        """Let delayed closures read `snapshot`, the state of their step.

        Values read before and in the block are dropped.
        """
        # Delayed closures read the state of their own step. Drop values that were read from another step.
        with self.state.window(None, snapshot):
            capture.cells.drop_fetched()
            yield
            capture.cells.drop_fetched()

    def _traced(self, step: TracedStep) -> tuple[Graph, dict[ViewIdentity, tuple[str, Tensor]]]:
        """Finish the trace. Return the graph, and name and tensor of each output that closures take.

        Raises StateError if the graph has neither outputs nor updates of state.
        """
        before = len(self.closures.queue)
        step.capture.finish_recording()
        step.last_calls.extend(self.closures.queue[before:])
        outputs = self._outputs()
        # Reading a state's node above made it an input of the graph, even if only closures take it.
        nodes = tuple(cast_for_client(t.node) for _, t in outputs.values())
        graph, _ = step.capture.graph()
        self._warn_of_late_state(step, [t for _, t in outputs.values()])
        if not outputs and not graph.updates:
            raise StateError(
                "The compiled model has no computational graph. This happens when no tensors have been marked as "
                "outputs of the graph. Please pass a result of the traced function, such as the loss, to a "
                "@cstorch.step_closure.",
            )
        # Only what closures take is an output of the program. Other values do not leave the wafer.
        names = tuple(name for name, _ in outputs.values())
        return merge_equal_nodes(Graph(graph.inputs, graph.state, nodes, graph.updates, names)), outputs

    def _outputs(self) -> dict[ViewIdentity, tuple[str, Tensor]]:
        """Return name and tensor of each value that closures take from the device.

        The name is "output_", the closure's parameter, and the path inside the argument. A number makes it unique.
        """
        outputs: dict[ViewIdentity, tuple[str, Tensor]] = {}
        for call in self.closures.queue:
            for parameter, value in call.arguments().items():
                for path, t in flatten(value):
                    if is_on_client(t) or self._is_of_skipped_step(t):
                        continue
                    name = f"output_{parameter}{path}"
                    # A value that two closures take is fetched once. The last one names it, as in the original.
                    outputs[view_identity(t)] = name, t
        names = _make_distinct([name for name, _ in outputs.values()])
        return {k: (name, t) for (k, (_, t)), name in zip(outputs.items(), names, strict=True)}

    def _is_of_skipped_step(self, t: Tensor) -> bool:
        """Return whether a tensor belongs to an earlier step that was traced but not executed.

        Closures need not fetch it.
        """
        epoch = t.cell.epoch
        return self.settings.execute != "all" and epoch is not None and epoch is not self.step.capture

    def _warn_of_late_state(self, step: TracedStep, outputs: list[Tensor]) -> None:
        """Warn of state that is first made inside the step, or raise StateError if `settings.strict`.

        Results of traced functions and outputs do not count.
        """
        results = [t for result in step.results.values() for _, t in flatten(result)]
        # Results and outputs are created in the step on purpose.
        fleeting = {id(t.cell) for t in (*outputs, *results)}
        names = [name for name, cell in find_late_state(step.capture) if id(cell) not in fleeting]
        if not names:
            return
        lost = StateError(
            f"{', '.join(names)}: first created inside the step, so created again in each step; its changes are lost",
            hint="Create it before the first step: an optimizer's state in preinitialize(), a module's as a buffer.",
        )
        if self.settings.strict:
            raise lost
        warnings.warn(str(lost), UserWarning, stacklevel=2)

    def _write_texts(self, graph: Graph, compilation: Compilation) -> None:
        """Write the step's graph, its wrapped and its lowered form into the folder, which is created.

        The files are torch.mlir, hlo.mlir and cirh.mlir, and each in MLIR's generic form, as in torch.generic.mlir.
        """
        folder = self.settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        wrapped = compilation["wrap_custom_calls"]
        # Also write the generic form, which MLIR tools and `lazywafer opt` read.
        texts = {
            "torch": torch_text(graph),
            "hlo": hlo_text(wrapped, locations=True),
            "cirh": compilation.text,
            "torch.generic": generic_text(graph, ATEN_DIALECT),
            "hlo.generic": hlo_generic_text(wrapped),
            "cirh.generic": generic_text(compilation["lower_to_cirh"], CIRH_DIALECT),
        }
        for name, text in texts.items():
            # Module names may not be valid UTF-8. An escape sequence would have a meaning in MLIR.
            (folder / f"{name}.mlir").write_text(text, encoding="utf-8", errors="replace")

    def flush(self) -> None:
        """Make all closure calls that were delayed by `settings.closure_lag` steps."""
        self.closures.flush()

    def close(self) -> None:
        """End the loop. The client can read values again, and state if the last step was a checkpoint step.

        A step that is being traced is discarded.
        """
        had_steps = self.phase not in (SessionPhase.OPEN, SessionPhase.CLOSED)
        self._move("close")
        if not had_steps:
            return
        # Discard a step that the loop left in the middle.
        if cells.thread_state.current is self.step.capture:
            self.step.capture.leave()
        self.state.stop()


def is_on_client(t: Tensor) -> bool:
    """Return whether a tensor has its value on the client, so that no step computes or fetches it."""
    cell = t.cell
    if t.device.type != CPU.type or cells.is_in_store(cell):
        return False
    return cell.epoch is None or (cell.node is not None and cell.node.op in ("const", "leaf"))


def fetch_to_client(fetches: dict[ViewIdentity, np.ndarray], t: Tensor) -> Tensor:
    """Return a tensor with the value of `t` on the client.

    The value comes from `fetches` if it is an output of the program. cbfloat16 becomes float32.
    """
    array = fetches.get(view_identity(t))
    # `cast_for_client` has converted it in the program.
    kind = Type(t.spec.shape, float32) if t.dtype is cbfloat16 else t.spec
    return tensor_from_storage(Storage(leaf(np.array(t.array() if array is None else array), kind)))


def _make_distinct(names: list[str]) -> list[str]:
    """Return the names in order. A repeated name gets the first free number appended.

    >>> _make_distinct(["x", "x", "y"])
    ['x', 'x1', 'y']
    """
    distinct: dict[str, None] = {}
    for name in names:
        free = name
        for number in itertools.count(1):
            if free not in distinct:
                break
            free = f"{name}{number}"
        distinct[free] = None
    return list(distinct)


def make_checkpoint_hint(step: int | None) -> str:
    """Return the hint for reading state outside of checkpoint steps. `step` is the next checkpoint step or None."""
    if step is None:
        return "Pass checkpoint_steps to the DataExecutor, and read state in a @cstorch.checkpoint_closure."
    return f"Read it in a @cstorch.checkpoint_closure; the next checkpoint step is {step}."


def cast_for_client(n: Node) -> Node:
    """Return node `n`, cast to float32 if it is cbfloat16, which the client does not have."""
    return cast(n, float32) if n.type.dtype is cbfloat16 else n


def enter_capture_with_batch(capture: Capture, batch: Any) -> Any:
    """Enter `capture` with copies of `batch` on the device as its inputs, paused, and return these copies."""
    seen = map_tensors(batch, _copy_to_device)
    for i, (path, t) in enumerate(flatten(seen)):
        capture.feed(t.cell, i, f"input{path}")
    capture.__enter__()
    capture.pause()
    return seen


def _copy_to_device(t: Tensor) -> Tensor:
    """Return a copy of a tensor on the wafer's device."""
    copy = tensor_from_storage(Storage(leaf(t.array(), t.spec)))
    copy.device = LAZY_DEVICE
    return copy


def view_identity(t: Tensor) -> ViewIdentity:
    """Return the identity of a tensor's value. Tensors that differ only in requiring gradients have the same."""
    # Ignore whether the tensor records gradients.
    return id(t.cell), tuple(step for step in t.view_ops if step[0] != "variable")
