"""SparseParameter: a parameter, its mask, and the tensors that are kept zero where the mask is."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.cerebras.pytorch.sparse.init import check_mask
from cstorch_compat.run import process
from lazytensor.autograd.hooks import register_hook
from lazytensor.core import storage
from lazytensor.core.dtype import bool_
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import ones
from lazytensor.functional.in_place import write_values
from lazytensor.ir.program import Density


class SparseParameter:
    """A parameter of a module with its mask, which becomes the buffer `<parameter>_mask` of the same module.

    `init_method` gives the first mask from the parameter. Until `initialize` is called, or a saved mask is loaded, all
    elements are kept.
    """

    DISABLE_MASK_ACCESS_WARNING = False

    def __init__(self, module: Any, name: str, init_method: Callable[[Tensor], Tensor]):
        self.module, self.name, self.init_method = module, name, init_method
        self.param_name = name.rpartition(".")[2]
        self.mask_name = f"{self.param_name}_mask"
        self._initialized = False
        self._annotations: dict[str, float] = {}
        self.balanced_groups = (1, 1)  # of outputs and of inputs, each with as many weights as the others
        self._pruned: dict[str, Tensor] = {}
        # A buffer, so that masks are saved and loaded with the weights they belong to, under the original's names.
        module.register_buffer(self.mask_name, self._make_full_mask())
        # A mask that comes from a checkpoint must not be made anew when the loop begins.
        module.register_load_state_dict_pre_hook(self._note_loaded_mask)
        self.grad_hook = register_hook(self.param, self._mask_gradient) if self.param.requires_grad else None

    def _make_full_mask(self) -> Tensor:
        mask = ones(*self.param.shape, dtype=bool_)
        # On the wafer a mask is state beside its parameter, and named after it.
        mask.device = self.param.device
        state = self.param.cell.state
        if state:
            storage.register(mask.cell, f"{state}_mask")
        return mask

    def _note_loaded_mask(self, module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        # Old checkpoints without masks leave it as it is: then the first mask is made from the loaded weights.
        self._initialized |= f"{prefix}{self.mask_name}" in state_dict

    def _mask_gradient(self, gradient: Tensor) -> Tensor:
        # A selection, as 0 times an infinite gradient would be NaN.
        return pw.where(self.mask, gradient, 0.0)

    @property
    def param(self) -> Tensor:
        """The parameter."""
        # Asked of the module each time: loading or moving it may have put another tensor there.
        param: Tensor = getattr(self.module, self.param_name)
        return param

    @property
    def data(self) -> Tensor:
        """The parameter without its gradient history."""
        return self.param.detach()

    @property
    def mask(self) -> Tensor:
        """Which elements are kept, as bool of the parameter's shape."""
        mask: Tensor = getattr(self.module, self.mask_name)
        return mask

    @mask.setter
    def mask(self, new_mask: Tensor) -> None:
        self.update(new_mask)

    @staticmethod
    def disable_mask_access_warning() -> None:
        """Kept for scripts that call it: here reading a mask never warns."""
        SparseParameter.DISABLE_MASK_ACCESS_WARNING = True

    def initialize(self) -> None:
        """Make the first mask, unless there is one already."""
        if self._initialized:
            return
        with grad_mode(False):
            # Copied: the buffer is state with a name already.
            write_values(self.mask, check_mask(self.init_method(self.param), self.param, self.name))
        self._initialized = True

    def update(self, new_mask: Tensor) -> None:
        """Replace the mask. Raises RuntimeError before the first mask is made, ValueError for one that does not fit."""
        if not self._initialized:
            raise RuntimeError(
                f"The mask of {self.name} is being updated before it was initialized: masks are made when the loop "
                "over a DataExecutor begins, or by `initialize()`"
            )
        with grad_mode(False):
            # Written, since the new mask is a node of the traced step.
            self.mask.write(check_mask(new_mask, self.param, self.name).node)

    def prune(self, tensor: Tensor | None = None, tensor_name: str | None = None) -> None:
        """Set a tensor of the parameter's shape, or the parameter itself, to zero where the mask is."""
        pruned = self.param if tensor is None else tensor
        self._note(pruned, tensor_name or self.name)
        with grad_mode(False):
            # A product will do: weights and state are finite, unlike gradients.
            pruned.write((pruned.detach() * pw.cast_to(self.mask, pruned.dtype)).node)

    def _note(self, pruned: Tensor, name: str) -> None:
        """Tell the compiler what is known of a tensor that is sparse from now on."""
        self._pruned[name] = pruned
        state = pruned.cell.state
        if state and self._annotations:
            backend = process.current_backend()
            backend.annotations[state] = self._annotations
            # Where a schedule ends is where most of a run's steps are; one that never ends leaves what a share can be.
            share = min(1.0, max(0.0, 1.0 - self._annotations["sparsity"]))
            backend.densities[state] = Density(share, self.mask.cell.state or "", *self.balanced_groups)

    def annotate(self, name: str, value: float) -> None:
        """Add something that the compiler is told of each pruned tensor. Raises RuntimeError when one was pruned."""
        # The compiler is told with the first pruning, and what comes later would be lost.
        if self._pruned:
            raise RuntimeError(f"Annotations have to be set before tensors are pruned: {list(self._pruned)} have been")
        self._annotations[name] = float(value)

    def clear(self) -> None:
        """Forget the tensors that were pruned."""
        self._pruned.clear()

    def __str__(self) -> str:
        return f"SparseParameter({self.name})"
