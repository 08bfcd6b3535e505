"""How steps are executed on each backend.

On the CPU backend a traced function runs its body every time, as PyTorch would, and its results are there when it
returns. On CSX the body runs once; the step ends when the loop asks for the next batch, and values can be read in
closures only. Client and server are modelled in one thread: a real one would add races and teach nothing.
"""

import functools
import pathlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.run.closures import Closures
from cstorch_compat.run.late_state import late_state
from cstorch_compat.run.wafer_state import WaferState
from lazytensor import config, precision, source, trace
from lazytensor.capture import Capture
from lazytensor.cirh.text import Notes, torch_text
from lazytensor.compiler.pipeline import Compilation, Heading
from lazytensor.dtype import DType, cbfloat16, float32
from lazytensor.errors import StateError, TraceError
from lazytensor.ir.graph import Graph, Node, leaf
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast
from lazytensor.runtime.backend import Executable
from lazytensor.runtime.store import Store
from lazytensor.step import StepRunner
from lazytensor.tensor import Device, Tensor, untracked, wrap
from lazytensor.trace import Cell

LAZY = Device("lazy", 0)


class EagerSession:
    """The CPU backend: each call of a traced function is captured, compiled once, and executed at once."""

    def __init__(self, runner: StepRunner, store: Store):
        self.runner, self.store = runner, store
        self.closures = Closures()

    def begin(self, batch: Any) -> Any:
        """The batch as the loop sees it."""
        return batch

    def call(self, step_fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Run a traced function."""
        if trace.current is not None:
            return step_fn(*args, **kwargs)
        capture = Capture(self.store, readable=True)
        for i, (path, t) in enumerate(flatten((args, kwargs) if kwargs else args)):
            if not t.lens and t.cell.home is None and not t.cell.state and t.cell.epoch is None:
                capture.feed(t.cell, i, f"input{path}")
        with capture:
            result = step_fn(*args, **kwargs)
            self.runner.run(capture)
        return result

    def held(self, arguments: Any) -> Any:
        """The arguments of a closure as they are at its call; PyTorch's eager tensors may change until it runs."""
        return map_tensors(arguments, lambda t: wrap(untracked(t.node)))

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: Callable[[], int | None]) -> None:
        """The loop has come round: run the closures."""
        self.closures.run(step, is_checkpoint, lambda arguments: arguments)

    def flush(self) -> None:
        """The last step is over; nothing is late here."""

    def close(self) -> None:
        """The loop is over."""


@dataclass(frozen=True)
class WaferSettings:
    """How a CSX execution goes: its `folder` for texts, the half type, how far it goes, and how it is checked.

    `execute` is "all", "compile" (stop after planning) or "trace" (stop after lowering). Closures come `closure_lag`
    steps late. `strict` makes state that is first made inside the step an error. `notes` say what is known of state.
    `level` is the precision optimization level; `retrace` has the body traced in every step; compiled kernels are
    kept in `compile_dir`, if it is given; `widen_cbfloat16` gives the client float32 for cbfloat16.
    """

    folder: pathlib.Path
    half: DType
    execute: str = "all"
    closure_lag: int = 0
    strict: bool = False
    notes: Notes = field(default_factory=dict)
    level: int = 1
    retrace: bool = False
    compile_dir: str = ""
    widen_cbfloat16: bool = False


class WaferSession:
    """The CSX backend: the body is traced in the first step, and later steps replay the program.

    `on_report` is given the report of the compiled program.
    """

    def __init__(
        self, runner: StepRunner, state: WaferState, settings: WaferSettings, on_report: Callable[[Any], None]
    ):
        self.runner, self.state, self.settings, self.on_report = runner, state, settings, on_report
        self.closures = Closures(settings.closure_lag)
        self.capture: Capture | None = None
        self.executable: Executable | None = None
        self.graph: Graph | None = None
        self._seen_batch: Any = None
        self._arrays: list[np.ndarray] = []
        self._results: dict[Callable, Any] = {}
        self._repeated: dict[Callable, list] = {}
        self._marked: dict[tuple, tuple[str, Tensor]] = {}
        self._fetches: dict[tuple, np.ndarray] = {}
        self._reported: list[Executable] = []
        self._last_is_checkpoint: bool | None = None  # None until a step has run

    def begin(self, batch: Any) -> Any:
        """Take in a batch; the loop sees tensors that have no values on the client."""
        self._arrays = [t.array() for _, t in flatten(batch)]
        if self.capture is None:
            self.state.start()
        elif self.settings.retrace:
            self._forget()
        else:
            self.capture.hide()
            return self._seen_batch
        self.capture = Capture(self.state, readable=False)
        self._seen_batch = enter_fed(self.capture, batch)
        return self._seen_batch

    def _forget(self) -> None:
        """Let the next step be traced anew; an equal graph is not compiled again."""
        self.graph = self.executable = None
        for known in (self._results, self._repeated, self._marked):
            known.clear()

    def call(self, step_fn: Callable, args: tuple, kwargs: dict) -> Any:
        """Trace the body in the first step; later give back the handles that it returned."""
        assert self.capture is not None
        if step_fn in self._results:
            self.closures.queue += self._repeated[step_fn]
            return self._results[step_fn]
        if self.graph is not None:
            raise TraceError(
                "a traced function was called for the first time after the first step",
                where=source.where(),
                hint="Call every @cstorch.trace function in the first iteration of the loop.",
            )
        before = len(self.closures.queue)
        with self.capture.recording(), precision.autocast(self.settings.half):
            result = step_fn(*args, **kwargs)
        self._results[step_fn], self._repeated[step_fn] = result, self.closures.queue[before:]
        return result

    def held(self, arguments: Any) -> Any:
        """The arguments of a closure: the very handles, whose last value in the step is the one that counts."""
        return arguments

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: Callable[[], int | None]) -> None:
        """Execute the step on its batch and run the closures that wait for it; `step` counts from 1."""
        assert self.capture is not None
        if self.graph is None:
            self.graph = self._traced_graph()
            compilation = self._compilation(self.graph)
            self._write_texts(self.graph, compilation)
            if self.settings.execute != "trace":
                self.executable = self._executable(compilation)
        if self.settings.execute != "all" or self.executable is None:
            self.closures.queue.clear()
            self.capture.leave()
            return
        values = [v.copy() for v in self.executable.step(self._arrays)]
        self._fetches = dict(zip(self._marked, values, strict=True))
        self._last_is_checkpoint = is_checkpoint
        self.capture.reveal([t.cell for _, t in self._waiting()], [self._fetches[k] for k, _ in self._waiting()])
        within = self._window(is_checkpoint, next_checkpoint)
        self.closures.run(step, is_checkpoint, lambda arguments: map_tensors(arguments, self._fetched), within)

    def _compilation(self, graph: Graph) -> Compilation:
        notes = tuple((state, tuple(known.items())) for state, known in self.settings.notes.items())
        return self.runner.compilation(graph, Heading(self.settings.half.name, self.settings.level, notes))

    def _executable(self, compilation: Compilation) -> Executable:
        with config.override(cache=self.settings.compile_dir or config.current().cache):
            executable = compilation.executable
        if executable not in self._reported:
            self._reported.append(executable)
            self.on_report(executable.report)
        return executable

    def _window(self, is_checkpoint: bool, next_checkpoint: Callable[[], int | None]) -> AbstractContextManager[None]:
        """What the closures of this step see of the state: all of it on a checkpoint step, else the way out."""
        if not is_checkpoint:
            return self.state.window(functools.partial(_way_out, next_checkpoint()))
        return self._late_window(self.state.snapshot()) if self.closures.lag else self.state.window(None)

    @contextmanager
    def _late_window(self, snapshot: dict[str, np.ndarray]) -> Iterator[None]:
        assert self.capture is not None
        with self.state.window(None, snapshot):
            self.capture.cells.refetch()
            yield
            self.capture.cells.refetch()

    def _traced_graph(self) -> Graph:
        """What was captured, with the outputs that a closure takes."""
        assert self.capture is not None
        graph, _ = self.capture.graph()
        self._mark_outputs()
        self._warn_of_late_state()
        names = tuple(name for name, _ in self._marked.values())
        outputs = tuple(_for_client(t.node) for _, t in self._marked.values())
        if not outputs and not graph.updates:
            raise StateError(
                "The compiled model has no computational graph. This happens when no tensors have been marked as "
                "outputs of the graph. Please pass a result of the traced function, such as the loss, to a "
                "@cstorch.step_closure.",
            )
        return Graph(graph.inputs, graph.state, outputs, graph.updates, names)

    def _mark_outputs(self) -> None:
        """Collect what closures take; its name is the parameter of the closure, and the path inside."""
        for call in self.closures.queue:
            for parameter, value in call.arguments().items():
                for path, t in flatten(value):
                    self._mark(f"output_{parameter}{path}", t)

    def _mark(self, name: str, t: Tensor) -> None:
        if t.dtype is cbfloat16 and not self.settings.widen_cbfloat16:
            raise TraceError(
                f"{name} is a {t.spec}, for which the client has no type: it cannot take it from the wafer",
                where=t.node.where,
                hint="Pass tensor.to(torch.float32), or set cstorch.backends.csx.debug.implicit_cast_cb16_to_fp32.",
            )
        self._marked.setdefault(_identity(t), (name, t))

    def _warn_of_late_state(self) -> None:
        assert self.capture is not None
        known = {id(t.cell) for _, t in self._marked.values()}
        known |= {id(t.cell) for result in self._results.values() for _, t in flatten(result)}
        found = [name for name, cell in late_state(self.capture) if id(cell) not in known]
        if not found:
            return
        lost = StateError(
            f"{', '.join(found)}: first made inside the step, and so made anew in each step; what is written is lost",
            hint="Make it before the first step: an optimizer's state in preinitialize(), a module's as a buffer.",
        )
        if self.settings.strict:
            raise lost
        warnings.warn(str(lost), UserWarning, stacklevel=2)

    def _waiting(self) -> list[tuple[tuple, Tensor]]:
        """The outputs whose cells can take the value: those made in the step, seen whole."""
        assert self.capture is not None
        own = {id(cell) for cell, *_ in (*self.capture.cells.inputs, *self.capture.cells.touched)}
        return [(k, t) for k, (_, t) in self._marked.items() if not t.lens and id(t.cell) not in own]

    def _fetched(self, t: Tensor) -> Tensor:
        """What a closure sees of a tensor: its value on the client."""
        array = self._fetches.get(_identity(t))
        kind = Type(t.spec.shape, float32) if t.dtype is cbfloat16 else t.spec
        return Tensor(Cell(leaf(np.array(t.array() if array is None else array), kind)))

    def _write_texts(self, graph: Graph, compilation: Compilation) -> None:
        folder = self.settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torch.mlir").write_text(torch_text(graph))
        (folder / "cirh.mlir").write_text(compilation.text)

    def flush(self) -> None:
        """The last step is over: make the calls of closures that are late."""
        self.closures.flush()

    def close(self) -> None:
        """The loop is over: the client sees values again, state only if the last step was a checkpoint step."""
        if self.capture is None:
            return
        if trace.current is self.capture:
            self.capture.leave()
        self.state.stop(self._last_is_checkpoint)


def _way_out(step: int | None) -> str:
    if step is None:
        return "Give the DataExecutor checkpoint_steps, and read state in a @cstorch.checkpoint_closure."
    return f"Read it in a @cstorch.checkpoint_closure; the next checkpoint step is {step}."


def _for_client(n: Node) -> Node:
    return cast(n, float32) if n.type.dtype is cbfloat16 else n


def enter_fed(capture: Capture, batch: Any) -> Any:
    """Enter the capture of a step on a batch; the loop sees the batch that is returned, as tensors of the device."""
    seen = map_tensors(batch, _on_device)
    for i, (path, t) in enumerate(flatten(seen)):
        capture.feed(t.cell, i, f"input{path}")
    capture.__enter__()
    capture.pause()
    return seen


def _on_device(t: Tensor) -> Tensor:
    made = Tensor(Cell(leaf(t.array(), t.spec)))
    made.device = LAZY
    return made


def _identity(t: Tensor) -> tuple:
    """What two handles on the same value have in common."""
    return id(t.cell), tuple(step for step in t.lens if step[0] != "variable")
