"""Find tensors that should be state but are created inside the step.

The system creates such a tensor again in each step, so what the step writes to it is lost. Source: the limitations page
of the 2.x documentation, "Pre-Initialize Stateful Tensors".
"""

from collections.abc import Iterator

from lazytensor.core.capture import Capture
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor
from lazytensor.optim.traced.optimizer import alive


def find_late_state(capture: Capture) -> Iterator[tuple[str, Storage]]:
    """Yield name and storage of each live tensor that was created in the step and is used as state.

    Used as state means that it is in the state of an optimizer, or was changed in place. Gradients do not count.
    """
    # A storage with a home in the state store is state already.
    born = {id(c): c for c in capture.cells.live_storages() if c.home is None and c.node is not None}
    named = dict(_find_optimizer_state(born))
    gradients = _gradient_cells()
    for key, cell in born.items():
        # Gradients are written in place too, but are meant to be new in each step.
        if key in named or (cell.version > 0 and key not in gradients):
            name = named.get(key, f"a tensor {cell.type}")
            yield f"{name} ({cell.node.where})" if cell.node and cell.node.where else name, cell


def _find_optimizer_state(born: dict[int, Storage]) -> Iterator[tuple[int, str]]:
    """Yield id and name of each storage in `born` that is in the state of an optimizer."""
    for optimizer in alive():
        for i, (p, state) in enumerate(optimizer.state.items()):
            for name, value in state.items():
                if isinstance(value, Tensor) and id(value.cell) in born:
                    owner = p.cell.state if isinstance(p, Tensor) else str(i)
                    yield id(value.cell), f"{type(optimizer).__name__}.state[{owner}][{name!r}]"


def _gradient_cells() -> set[int]:
    """Return the ids of the storages of all gradients of optimized parameters."""
    return {
        id(p.grad.cell)
        for optimizer in alive()
        for group in optimizer.param_groups
        for p in group["params"]
        if p.grad is not None
    }
