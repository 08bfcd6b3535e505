"""The session of the CSX backend: the body is traced in the first step, and later steps run the program.

A step ends when the loop asks for the next batch, and values can be read in closures only. Client and server are
modelled in one thread: a real one would add races and teach nothing.
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
from lazytensor.ir.graph import Graph, Node, distinct_uses, leaf, merge_equal_nodes
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast
from lazytensor.runtime.backend import Executable


@dataclass(frozen=True)
class WaferSettings:
    """How a CSX execution goes: its `folder` for texts, the half type, how far it goes, and how it is checked.

    `execute` is "all", "compile" (stop after planning) or "trace" (stop after lowering). Closures come `closure_lag`
    steps late. `strict` makes state that is first made inside the step an error. `notes` say what is known of state.
    `level` is the precision optimization level, `planning` what a plan of the step is asked for; `retrace` has the body
    traced in every step; compiled kernels are kept in `compile_dir`, if it is given; `widen_cbfloat16` gives the client
    float32 for cbfloat16. `arrivals` are told of each tensor that the client gets, and of its name.
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
    """Where a session is; the value is how an error says it."""

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
            "there is no program yet, so the body shows what the step is",
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
            "the body is not run again: its handles stand for the new step",
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
            "a run that starts over closes what its loop closes later again",
        ),
    ),
)
"""What may happen to a session; anything else raises TraceError."""


@dataclass(frozen=True)
class TracedStep:
    """A step that is traced or was: the batch as the loop sees it, and what its functions returned and called.

    A function that is called again in a later step returns the same handles, and its closures are called again.
    `last_calls` are those of closures that were called at the end of the trace.
    """

    capture: Capture
    batch: Any
    results: dict[Callable[..., Any], Any] = field(default_factory=dict)
    closure_calls: dict[Callable[..., Any], list[ClosureCall]] = field(default_factory=dict)
    last_calls: list[ClosureCall] = field(default_factory=list)


ViewIdentity = tuple[int, tuple[Any, ...]]
"""What two handles on the same value have in common: the cell, and the way from it to the view."""


@dataclass(frozen=True)
class CompiledStep:
    """A step that was traced as a whole, what it gives to closures, and what executes it."""

    step: TracedStep
    graph: Graph
    executable: Executable
    outputs: tuple[ViewIdentity, ...]
    waiting: tuple[tuple[ViewIdentity, Storage], ...]  # the outputs whose cells take the value between steps

    @classmethod
    def of(
        cls, step: TracedStep, graph: Graph, outputs: dict[ViewIdentity, tuple[str, Tensor]], executable: Executable
    ) -> "CompiledStep":
        """The program of a step; its outputs that were made in the step, and are seen whole, take their values."""
        # A view, or a cell that was there before, does not take a value: its value is that of the cell behind it.
        cells = step.capture.cells
        outside = {id(cell) for cell, *_ in (*cells.inputs, *cells.touched)}
        waiting = ((k, t.cell) for k, (_, t) in outputs.items() if not t.view_ops and id(t.cell) not in outside)
        return cls(step, graph, executable, tuple(outputs), tuple(waiting))


class WaferSession(ExecutionSession):
    """The execution of one loop on the wafer; `on_compiled` is told of each program once."""

    CAPTURE = Capture

    def __init__(
        self, runner: StepRunner, state: WaferState, settings: WaferSettings, on_compiled: Callable[[Compilation], None]
    ):
        self.runner, self.state, self.settings, self.on_compiled = runner, state, settings, on_compiled
        self.closures = ClosureQueue(settings.closure_lag)
        self.phase = SessionPhase.OPEN
        self.stage: TracedStep | CompiledStep | None = None  # None while OPEN
        self._arrays: list[np.ndarray] = []
        self._reported: list[Executable] = []

    @property
    def step(self) -> TracedStep:
        """The step of the loop. Raises TraceError before the first one."""
        if self.stage is None:
            raise TraceError(f"the session is {self.phase.value} and has no step", where=source.where())
        return self.stage.step if isinstance(self.stage, CompiledStep) else self.stage

    def _move(self, event: str) -> None:
        self.phase = SESSION_LIFE_CYCLE.after(self.phase, event)

    def begin(self, batch: Any) -> Any:
        """Take in a batch; the loop sees tensors that have no values on the client."""
        # In the order in which `enter_capture_with_batch` numbers the inputs of the step.
        self._arrays = [t.array() for _, t in flatten(batch)]
        if isinstance(self.stage, CompiledStep) and not self.settings.retrace:
            self._move("replay")
            self.stage.step.capture.hide()
            return self.stage.step.batch
        # Refused before the capture is entered, and noted behind: a batch that is wrong leaves the session as it is.
        then = SESSION_LIFE_CYCLE.after(self.phase, "trace")
        capture = self.CAPTURE(self.state, readable=False)
        self.stage = TracedStep(capture, enter_capture_with_batch(capture, batch))
        if self.phase is SessionPhase.OPEN:
            self.state.start()
        self.phase = then
        return self.stage.batch

    def call(self, step_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the body in the first step; later give back the handles that it returned."""
        step = self.step
        if step_fn in step.results:
            # The body is not run again, so the closures that it calls are queued here.
            self.closures.queue += step.closure_calls[step_fn]
            return step.results[step_fn]
        if self.phase is not SessionPhase.TRACING:
            raise TraceError(
                "a traced function was called for the first time after the first step",
                where=source.where(),
                hint="Call every @cstorch.trace function in the first iteration of the loop.",
            )
        # What is queued from here on was called by this function, and comes again with it.
        before = len(self.closures.queue)
        noted = spans.record_span(spans.STEP_LANE, "trace")
        casts = autocast.autocast(self.settings.half)
        with noted, step.capture.recording(), casts, distinct_uses(), source.record_call_frames():
            result = step_fn(*args, **kwargs)
        step.results[step_fn], step.closure_calls[step_fn] = result, self.closures.queue[before:]
        return result

    def bind(self, arguments: Any) -> Any:
        """The very handles, whose last value in the step is the one that counts.

        Raises TraceError for a cbfloat16 tensor unless it is to be widened.
        """
        for _, t in flatten(arguments):
            if t.dtype is cbfloat16 and not self.settings.widen_cbfloat16:
                raise TraceError(
                    f"a closure takes a {t.spec}, for which the client has no type: it cannot come from the wafer",
                    where=source.where(),
                    hint="Pass tensor.to(torch.float32), or set cstorch.backends.csx.debug.implicit_cast_cb16_to_fp32.",
                )
        return arguments

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Execute the step on its batch and run the closures that wait for it."""
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
        # Copies: the executable writes the next step's results over these.
        with spans.record_span(spans.STEP_LANE, "execute on the host", step=step):
            spans.record_wafer_step(step, program.executable)
            values = [v.copy() for v in program.executable.step(self._arrays)]
        fetches = dict(zip(program.outputs, values, strict=True))
        self._report_arrivals(program, values)
        self.state.finish_step(is_checkpoint)
        program.step.capture.reveal([cell for _, cell in program.waiting], [fetches[k] for k, _ in program.waiting])
        self.state.on_client |= program.step.capture.client_state
        # Closures see the state of the step only after reveal, which sends it home.
        within = self._closure_state_access(program.step.capture, is_checkpoint, next_checkpoint)
        seen = functools.partial(_fetch_to_client, fetches)
        self.closures.run(step, is_checkpoint, lambda arguments: map_tensors(arguments, seen), within)

    def _report_arrivals(self, program: CompiledStep, values: list[np.ndarray]) -> None:
        """Tell those who asked of each value that has come to the client."""
        for tell in tuple(self.settings.arrivals.values()):
            for name, node, value in zip(program.graph.output_names, program.graph.outputs, values, strict=True):
                tell(tensor_from_storage(Storage(leaf(value, node.type))), name)

    def _skip(self) -> None:
        """Forget the step, which is not to be executed."""
        self._move("skip")
        self.closures.queue.clear()
        self.step.capture.leave()

    def _compilation(self, graph: Graph) -> Compilation:
        """The way of a step's graph through the passes; its texts are written."""
        notes = tuple((state, tuple(known.items())) for state, known in self.settings.notes.items())
        heading = Heading(
            self.settings.half.name, self.settings.level, notes, locations=True, planning=self.settings.planning
        )
        compilation = self.runner.compilation(graph, heading)
        self._write_texts(graph, compilation)
        return compilation

    def _compile_executable(self, compilation: Compilation) -> Executable:
        # The compiler reads its folder from the switches; a backend may name one of its own.
        with config.override(cache=self.settings.compile_dir or config.current().cache):
            executable = compilation.executable
        self._report_compilation(compilation)
        return executable

    def _report_compilation(self, compilation: Compilation) -> None:
        """Hand on a program that was compiled, once."""
        if compilation.executable not in self._reported:
            self._reported.append(compilation.executable)
            self.on_compiled(compilation)

    def _closure_state_access(
        self, capture: Capture, is_checkpoint: bool, next_checkpoint: NextCheckpoint
    ) -> AbstractContextManager[None]:
        """What the closures of this step see of the state: all of it on a checkpoint step, else the way out."""
        if not is_checkpoint:
            return self.state.window(functools.partial(_make_checkpoint_hint, next_checkpoint()))
        return (
            self._late_closure_state_access(capture, self.state.snapshot())
            if self.closures.lag
            else self.state.window(None)
        )

    @contextmanager
    def _late_closure_state_access(self, capture: Capture, snapshot: dict[str, np.ndarray]) -> Iterator[None]:
        # Closures that come late read the state of their own step; what was read of another one must not stay.
        with self.state.window(None, snapshot):
            capture.cells.drop_fetched()
            yield
            capture.cells.drop_fetched()

    def _traced(self, step: TracedStep) -> tuple[Graph, dict[ViewIdentity, tuple[str, Tensor]]]:
        """What was captured, with the outputs that closures take: their names and handles."""
        before = len(self.closures.queue)
        step.capture.finish_recording()
        step.last_calls.extend(self.closures.queue[before:])
        outputs = self._outputs()
        # State that only a closure takes is state of the step since it was looked at.
        nodes = tuple(_cast_for_client(t.node) for _, t in outputs.values())
        graph, _ = step.capture.graph()
        self._warn_of_late_state(step, [t for _, t in outputs.values()])
        if not outputs and not graph.updates:
            raise StateError(
                "The compiled model has no computational graph. This happens when no tensors have been marked as "
                "outputs of the graph. Please pass a result of the traced function, such as the loss, to a "
                "@cstorch.step_closure.",
            )
        # Only what a closure takes is an output of the program: what else the step computes never leaves the wafer.
        names = tuple(name for name, _ in outputs.values())
        return merge_equal_nodes(Graph(graph.inputs, graph.state, nodes, graph.updates, names)), outputs

    def _outputs(self) -> dict[ViewIdentity, tuple[str, Tensor]]:
        """What closures take; its name is the parameter of the closure, and the path inside.

        A number follows a name that another output has already.
        """
        outputs: dict[ViewIdentity, tuple[str, Tensor]] = {}
        for call in self.closures.queue:
            for parameter, value in call.arguments().items():
                for path, t in flatten(value):
                    if _is_on_client(t) or self._is_of_skipped_step(t):
                        continue
                    name = f"output_{parameter}{path}"
                    # Two closures may take one value: it is fetched once, and named by the last one as in the original.
                    outputs[_view_identity(t)] = name, t
        names = _make_distinct([name for name, _ in outputs.values()])
        return {k: (name, t) for (k, (_, t)), name in zip(outputs.items(), names, strict=True)}

    def _is_of_skipped_step(self, t: Tensor) -> bool:
        """Whether a tensor is of an earlier step that was traced and not executed, so that no closure asks for it."""
        epoch = t.cell.epoch
        return self.settings.execute != "all" and epoch is not None and epoch is not self.step.capture

    def _warn_of_late_state(self, step: TracedStep, outputs: list[Tensor]) -> None:
        results = [t for result in step.results.values() for _, t in flatten(result)]
        # A result or an output is made anew on purpose.
        fleeting = {id(t.cell) for t in (*outputs, *results)}
        names = [name for name, cell in find_late_state(step.capture) if id(cell) not in fleeting]
        if not names:
            return
        lost = StateError(
            f"{', '.join(names)}: first made inside the step, and so made anew in each step; what is written is lost",
            hint="Make it before the first step: an optimizer's state in preinitialize(), a module's as a buffer.",
        )
        if self.settings.strict:
            raise lost
        warnings.warn(str(lost), UserWarning, stacklevel=2)

    def _write_texts(self, graph: Graph, compilation: Compilation) -> None:
        folder = self.settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        # Of both texts also the form that tools for MLIR read, and `lazywafer opt`.
        texts = {
            "torch": torch_text(graph),
            "cirh": compilation.text,
            "torch.generic": generic_text(graph, ATEN_DIALECT),
            "cirh.generic": generic_text(compilation["lower_to_cirh"], CIRH_DIALECT),
        }
        for name, text in texts.items():
            # Names of modules may have no UTF-8, and an escape would be one of MLIR's.
            (folder / f"{name}.mlir").write_text(text, encoding="utf-8", errors="replace")

    def flush(self) -> None:
        """Make the calls of closures that are late."""
        self.closures.flush()

    def close(self) -> None:
        """Let the client see values again, and state if the last step was a checkpoint step."""
        had_steps = self.phase not in (SessionPhase.OPEN, SessionPhase.CLOSED)
        self._move("close")
        if not had_steps:
            return
        # The loop was left in the middle of a step, which is forgotten.
        if cells.thread_state.current is self.step.capture:
            self.step.capture.leave()
        self.state.stop()


def _is_on_client(t: Tensor) -> bool:
    """Whether a tensor has its value on the client, so that no step has to compute or to fetch it."""
    cell = t.cell
    if t.device.type != CPU.type or cell.home is not None:
        return False
    return cell.epoch is None or (cell.node is not None and cell.node.op in ("const", "leaf"))


def _fetch_to_client(fetches: dict[ViewIdentity, np.ndarray], t: Tensor) -> Tensor:
    """What a closure sees of a tensor: its value on the client, which has no cbfloat16."""
    array = fetches.get(_view_identity(t))
    # It was widened in the program by `_cast_for_client`.
    kind = Type(t.spec.shape, float32) if t.dtype is cbfloat16 else t.spec
    return tensor_from_storage(Storage(leaf(np.array(t.array() if array is None else array), kind)))


def _make_distinct(names: list[str]) -> list[str]:
    """Return the names, each different: one that is taken gets the next free number behind it."""
    distinct: dict[str, None] = {}
    for name in names:
        free = name
        for number in itertools.count(1):
            if free not in distinct:
                break
            free = f"{name}{number}"
        distinct[free] = None
    return list(distinct)


def _make_checkpoint_hint(step: int | None) -> str:
    if step is None:
        return "Give the DataExecutor checkpoint_steps, and read state in a @cstorch.checkpoint_closure."
    return f"Read it in a @cstorch.checkpoint_closure; the next checkpoint step is {step}."


def _cast_for_client(n: Node) -> Node:
    return cast(n, float32) if n.type.dtype is cbfloat16 else n


def enter_capture_with_batch(capture: Capture, batch: Any) -> Any:
    """Enter the capture of a step on a batch; the loop sees the batch that is returned, as tensors of the device."""
    seen = map_tensors(batch, _copy_to_device)
    for i, (path, t) in enumerate(flatten(seen)):
        capture.feed(t.cell, i, f"input{path}")
    capture.__enter__()
    capture.pause()
    return seen


def _copy_to_device(t: Tensor) -> Tensor:
    copy = tensor_from_storage(Storage(leaf(t.array(), t.spec)))
    copy.device = LAZY_DEVICE
    return copy


def _view_identity(t: Tensor) -> ViewIdentity:
    # Whether a handle records gradients makes no other value of it.
    return id(t.cell), tuple(step for step in t.view_ops if step[0] != "variable")
