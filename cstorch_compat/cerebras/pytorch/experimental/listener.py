"""Hooks that receive the outputs of layers while a step is traced: `cerebras.pytorch.experimental.listener`.

They cover layers of `lazytensor.nn` without submodules. They do not receive results of functions that a model's own
code calls, nor tensors of the backward pass.
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
"""The module path prefix of built-in layers."""


class ListenerHandle:
    """A handle that unregisters a traced-tensor hook from all layers."""

    def __init__(self, handles: list[RemovableHandle]):
        self._handles = handles

    def remove(self) -> None:
        """Unregister the hook. It is not called any more."""
        for handle in self._handles:
            handle.remove()


def register_traced_tensor_hook(hook: TracedTensorHook) -> ListenerHandle:
    """Register `hook(tensor, name)` for the output of each layer of the prepared models in a traced step.

    Layers are built-in modules without submodules. `name` consists of the layer's path, "fwd" and the layer's function,
    such as "encoder.fc1.fwd.linear". If the layer is called again in the same step, ".1", ".2" and so on are appended.
    Models that are prepared later are not included. Returns a handle with `remove()`. Raises RuntimeError without a
    backend.
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
    """A hook with the number of calls for each name in the current traced step."""

    def __init__(self, hook: TracedTensorHook):
        self.hook = hook
        self.step: Any = None
        self.calls = Counter[str]()

    def of(self, name: str) -> Callable[[Module, Any, Any], None]:
        """Return the forward hook for the layer `name`.

        It ignores outputs that are no tensors, and calls outside a trace.
        """

        def listen(layer: Module, args: Any, output: Any) -> None:
            if not isinstance(output, Tensor) or not current_backend().is_tracing:
                return
            # The counts restart with each trace.
            if storage.thread_state.current is not self.step:
                self.step, self.calls = storage.thread_state.current, Counter()
            number = self.calls[name]
            self.calls[name] += 1
            self.hook(output, f"{name}.{number}" if number else name)

        return listen


def _leaf_layers(model: Module) -> Iterator[tuple[str, Module]]:
    """Yield the path and module of each built-in layer in `model` that has no submodules."""
    for path, module in model.named_modules():
        if type(module).__module__.startswith(LAYER_MODULE_PREFIX) and not list(module.children()):
            yield path, module


def _find_function_name(layer: Module) -> str:
    """Return the name of the function that `layer` calls, derived from its class name.

    For example, LayerNorm gives "layer_norm" and BatchNorm2d gives "batch_norm". If there is no such function in
    `nn.functional`, return the class name in snake case.
    """
    # The name without separators is tried first, because acronyms such as ReLU are one word.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(layer).__name__).lower()
    candidates = (words.replace("_", ""), words, re.sub(r"_?\dd$", "", words), words.removesuffix("_loss"))
    return next((name for name in candidates if hasattr(functional, name)), words)
