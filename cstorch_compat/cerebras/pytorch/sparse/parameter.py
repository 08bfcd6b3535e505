"""A sparse parameter: a parameter with its mask, and the tensors that are set to zero where the mask is False."""

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
    """A parameter of a module with its mask, which is registered as the buffer `<parameter>_mask` of the module.

    `name` is the full name of the parameter. `init_method` computes the first mask from the parameter. All elements are
    kept until `initialize` is called or a saved mask is loaded.
    """

    DISABLE_MASK_ACCESS_WARNING = False

    def __init__(self, module: Any, name: str, init_method: Callable[[Tensor], Tensor]):
        self.module, self.name, self.init_method = module, name, init_method
        self.param_name = name.rpartition(".")[2]
        self.mask_name = f"{self.param_name}_mask"
        self._initialized = False
        self._annotations: dict[str, float] = {}
        self.balanced_groups = (1, 1)  # groups of outputs and of inputs with equal numbers of weights
        self._pruned: dict[str, Tensor] = {}
        # A buffer, so that masks are saved and loaded with the weights, under the original's names.
        module.register_buffer(self.mask_name, self._make_full_mask())
        # A mask loaded from a checkpoint must not be replaced when the loop begins.
        module.register_load_state_dict_pre_hook(self._note_loaded_mask)
        self.grad_hook = register_hook(self.param, self._mask_gradient) if self.param.requires_grad else None

    def _make_full_mask(self) -> Tensor:
        mask = ones(*self.param.shape, dtype=bool_)
        # On the wafer the mask is state, named after the parameter.
        mask.device = self.param.device
        state = self.param.cell.state
        if state:
            storage.register(mask.cell, f"{state}_mask")
        return mask

    def _note_loaded_mask(self, module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        # With a checkpoint without masks, the first mask is computed from the loaded weights.
        self._initialized |= f"{prefix}{self.mask_name}" in state_dict

    def _mask_gradient(self, gradient: Tensor) -> Tensor:
        # A selection, because 0 times infinity is NaN.
        return pw.where(self.mask, gradient, 0.0)

    @property
    def param(self) -> Tensor:
        """Return the parameter."""
        # Read it from the module each time, because loading or moving the module may replace the tensor.
        param: Tensor = getattr(self.module, self.param_name)
        return param

    @property
    def data(self) -> Tensor:
        """Return the parameter detached from its gradient history."""
        return self.param.detach()

    @property
    def mask(self) -> Tensor:
        """Return the mask, a bool tensor with the parameter's shape, where True means kept.

        Assigning it calls `update`.
        """
        mask: Tensor = getattr(self.module, self.mask_name)
        return mask

    @mask.setter
    def mask(self, new_mask: Tensor) -> None:
        self.update(new_mask)

    @staticmethod
    def disable_mask_access_warning() -> None:
        """Set a flag that has no effect. In the original it suppresses a warning for reading the mask."""
        SparseParameter.DISABLE_MASK_ACCESS_WARNING = True

    def initialize(self) -> None:
        """Create the first mask in place, unless the parameter already has one.

        Raises ValueError if the init method returns a mask of another shape or dtype.
        """
        if self._initialized:
            return
        with grad_mode(False):
            # Write into the buffer, which is registered as state already.
            write_values(self.mask, check_mask(self.init_method(self.param), self.param, self.name))
        self._initialized = True

    def update(self, new_mask: Tensor) -> None:
        """Replace the values of the mask.

        Raises RuntimeError if the first mask was not created yet, and ValueError for a wrong shape or dtype.
        """
        if not self._initialized:
            raise RuntimeError(
                f"The mask of {self.name} is being updated before it was initialized: masks are made when the loop "
                "over a DataExecutor begins, or by `initialize()`"
                "\n  Call initialize(), or update masks in the loop over a DataExecutor."
            )
        with grad_mode(False):
            # Write into the buffer, because the new mask is a node of the traced step.
            self.mask.write(check_mask(new_mask, self.param, self.name).node)

    def prune(self, tensor: Tensor | None = None, tensor_name: str | None = None) -> None:
        """Set `tensor`, or the parameter if it is None, to zero in place where the mask is False.

        `tensor` has the parameter's shape. It is multiplied by the mask, so infinities and NaN become NaN there.
        `tensor_name` identifies it in annotations, which are attached here.
        """
        pruned = self.param if tensor is None else tensor
        self._note(pruned, tensor_name or self.name)
        with grad_mode(False):
            # A product suffices, because weights and state are finite, unlike gradients.
            pruned.write((pruned.detach() * pw.cast_to(self.mask, pruned.dtype)).node)

    def _note(self, pruned: Tensor, name: str) -> None:
        """Record that `pruned` is pruned under `name`, and annotate its state for the compiler and the planner.

        The annotations are the density, which is 1 - sparsity clamped to 0..1, the mask and the balanced groups.
        Without annotations, or if the tensor is not state of the run, it is only recorded.
        """
        self._pruned[name] = pruned
        state = pruned.cell.state
        if state and self._annotations:
            backend = process.current_backend()
            backend.annotations[state] = self._annotations
            # Most steps of a run are at the end of the schedule. A schedule without an end may exceed 0..1, hence the
            # clamp.
            share = min(1.0, max(0.0, 1.0 - self._annotations["sparsity"]))
            backend.densities[state] = Density(share, self.mask.cell.state or "", *self.balanced_groups)

    def annotate(self, name: str, value: float) -> None:
        """Add an annotation for all tensors that will be pruned. Raises RuntimeError if a tensor was pruned already."""
        # Annotations are attached at the first pruning, so a later one would be lost.
        if self._pruned:
            raise RuntimeError(
                f"Annotations must be set before tensors are pruned, but these were pruned: {list(self._pruned)}"
                "\n  Set the annotations before the first update of masks."
            )
        self._annotations[name] = float(value)

    def clear(self) -> None:
        """Clear the record of pruned tensors."""
        self._pruned.clear()

    def __str__(self) -> str:
        return f"SparseParameter({self.name})"
