"""The cstorch optimizers: those of lazytensor, bound to the backend of the run."""

from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat import run
from lazytensor import optim


class Optimizer(optim.Optimizer):
    """Base of optimizers. Needs a backend, since its state belongs to the run."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], enable_global_step: bool = False):
        run.current_backend()
        super().__init__(params, defaults)


def _bound(kind: type[optim.Optimizer]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        run.current_backend()
        kind.__init__(self, *args, **kwargs)

    __init__.__doc__ = kind.__init__.__doc__
    return __init__


class SGD(optim.SGD, Optimizer):
    __doc__ = optim.SGD.__doc__
    __init__ = _bound(optim.SGD)  # type: ignore[assignment]


class Adam(optim.Adam, Optimizer):
    __doc__ = optim.Adam.__doc__
    __init__ = _bound(optim.Adam)  # type: ignore[assignment]


class AdamW(optim.AdamW, Optimizer):
    __doc__ = optim.AdamW.__doc__
    __init__ = _bound(optim.AdamW)  # type: ignore[assignment]
