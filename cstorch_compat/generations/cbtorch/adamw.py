"""What `cerebras.models.common.pytorch.optim.AdamW` names: a module that scripts call as if it were its class."""

import sys
from types import ModuleType
from typing import Any

from cstorch_compat.generations.cbtorch import optim

AdamW = optim.AdamW  # type: ignore[attr-defined]


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return AdamW(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
