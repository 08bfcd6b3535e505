"""Functions that are told of tensors while a step is traced: `cerebras.pytorch.experimental.listener`.

They hear of what layers give; what a model's own code calls, and what the backward pass makes, they do not hear of.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.run.process import current_backend
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import storage
from lazytensor.core.tensor import Tensor
from lazytensor.nn import Module, functional

TracedTensorHook = Callable[[Tensor, str], None]
LAYER_MODULE_PREFIX = "lazytensor.nn."


class ListenerHandle:
    """Takes a function away from every layer again."""

    def __init__(self, handles: list[RemovableHandle]):
        self._handles = handles

    def remove(self) -> None:
        """Tell the function no more."""
        for handle in self._handles:
            handle.remove()


def register_traced_tensor_hook(hook: TracedTensorHook) -> ListenerHandle:
    """Call hook(tensor, name) for what each layer of the prepared models gives in a traced step.

    The name is the layer's path, "fwd" and the function, such as "encoder.fc1.fwd.linear"; another call in the step
    has a number behind it. Raises RuntimeError if there is no backend.
    """
    ear = _LayerListener(hook)
    return ListenerHandle(
        [
            layer.register_forward_hook(ear.of(f"{path}.fwd.{_find_function_name(layer)}".removeprefix(".")))
            for model in current_backend().prepared
            for path, layer in _leaf_layers(model)
        ]
    )


class _LayerListener:
    """One function, and how often each name has come in the present step."""

    def __init__(self, hook: TracedTensorHook):
        self.hook = hook
        self.step: Any = None
        self.calls = Counter[str]()

    def of(self, name: str) -> Callable[[Module, Any, Any], None]:
        """What is called behind a layer."""

        def listen(layer: Module, args: Any, output: Any) -> None:
            if not isinstance(output, Tensor) or not current_backend().is_tracing:
                return
            # Each trace is a step of its own, and counts from the first call again.
            if storage.thread_state.current is not self.step:
                self.step, self.calls = storage.thread_state.current, Counter()
            number = self.calls[name]
            self.calls[name] += 1
            self.hook(output, f"{name}.{number}" if number else name)

        return listen


def _leaf_layers(model: Module) -> Iterator[tuple[str, Module]]:
    """The layers of a model that have none inside, with their paths."""
    for path, module in model.named_modules():
        if type(module).__module__.startswith(LAYER_MODULE_PREFIX) and not list(module.children()):
            yield path, module


def _find_function_name(layer: Module) -> str:
    """The function that a layer calls, by its class: LayerNorm calls layer_norm, BatchNorm2d batch_norm."""
    # Acronyms (ReLU, GELU) have no words inside, so the name without any break is tried first.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(layer).__name__).lower()
    candidates = (words.replace("_", ""), words, re.sub(r"_?\dd$", "", words), words.removesuffix("_loss"))
    return next((name for name in candidates if hasattr(functional, name)), words)
