"""Finds tensors that were meant to outlive the step, and were first born inside it.

Such a tensor has no identity before tracing, so the system makes it anew in each step, and what the step wrote to it
is lost. Source: the limitations page of the 2.x documentation, "Pre-Initialize Stateful Tensors".
"""

from collections.abc import Iterator

from lazytensor.core.capture import Capture
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor
from lazytensor.optim.traced.optimizer import alive


def find_late_state(capture: Capture) -> Iterator[tuple[str, Storage]]:
    """Each cell that was born in the step, changed in place there, and is still held by somebody; with its name."""
    # A cell with a home is state already.
    born = {id(c): c for c in capture.cells.live_storages() if c.home is None and c.node is not None}
    named = dict(_find_optimizer_state(born))
    gradients = _gradient_cells()
    for key, cell in born.items():
        # Gradients are written in place as well, and are meant to be made anew in each step.
        if key in named or (cell.version > 0 and key not in gradients):
            name = named.get(key, f"a tensor {cell.type}")
            yield f"{name} ({cell.node.where})" if cell.node and cell.node.where else name, cell


def _find_optimizer_state(born: dict[int, Storage]) -> Iterator[tuple[int, str]]:
    for optimizer in alive():
        for i, (p, state) in enumerate(optimizer.state.items()):
            for name, value in state.items():
                if isinstance(value, Tensor) and id(value.cell) in born:
                    owner = p.cell.state if isinstance(p, Tensor) else str(i)
                    yield id(value.cell), f"{type(optimizer).__name__}.state[{owner}][{name!r}]"


def _gradient_cells() -> set[int]:
    return {
        id(p.grad.cell)
        for optimizer in alive()
        for group in optimizer.param_groups
        for p in group["params"]
        if p.grad is not None
    }
