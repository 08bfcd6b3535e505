"""The base class of optimizers in release 1.8, which also names the state to sparsify."""

from abc import abstractmethod

from cstorch_compat.cerebras.pytorch.optim import optimizers


class Optimizer(optimizers.Optimizer):
    """The base class of optimizers in release 1.8.

    A subclass creates its state in `preinitialize`, updates the parameters in `step`, and names the state to sparsify
    in `state_names_to_sparsify`. Optimizers of `cstorch.optim` are registered as virtual subclasses.
    """

    @abstractmethod
    def state_names_to_sparsify(self) -> list[str]:
        """Return the names of the state tensors to sparsify.

        Sparsity algorithms mask all state of a parameter's shape anyway.
        """
        return []


# They derive from the current base class, and scripts test them with `isinstance` of this one.
for _kind in vars(optimizers).values():
    if isinstance(_kind, type) and issubclass(_kind, optimizers.Optimizer) and _kind is not optimizers.Optimizer:
        Optimizer.register(_kind)
