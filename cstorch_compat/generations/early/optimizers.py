"""Release 1.8: the base of optimizers, which also say what of their state is sparse."""

from abc import abstractmethod

from cstorch_compat.cerebras.pytorch.optim import optimizers


class Optimizer(optimizers.Optimizer):
    """Base of optimizers. A subclass makes the state in `preinitialize`, updates the parameters in `step`, and names
    the state that is sparse where the parameters are in `state_names_to_sparsify`.

    Instances of the optimizers of `cstorch.optim` count as instances of this class.
    """

    @abstractmethod
    def state_names_to_sparsify(self) -> list[str]:
        """Return the names of the state variables to sparsify. Algorithms of sparsity mask all of them anyway."""
        return []


# They are subclasses of the base of the latest release, and scripts ask `isinstance` of this one.
for _kind in vars(optimizers).values():
    if isinstance(_kind, type) and issubclass(_kind, optimizers.Optimizer) and _kind is not optimizers.Optimizer:
        Optimizer.register(_kind)
