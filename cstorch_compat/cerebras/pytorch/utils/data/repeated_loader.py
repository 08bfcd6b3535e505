"""An endless iterator over a data loader, which can save and restore its position."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data import loader_position
from cstorch_compat.cerebras.pytorch.utils.data.process_role import Cluster
from lazytensor.core import source
from lazytensor.errors import DataError

RESTARTABLE_METHODS = ("state_dict", "load_state_dict", "aggregate_state_dict", "deaggregate_state_dict")
"""The methods that a restartable loader defines."""


def is_restartable(loader: Any) -> bool:
    """Return whether `loader` defines all methods in `RESTARTABLE_METHODS`."""
    return all(callable(getattr(loader, name, None)) for name in RESTARTABLE_METHODS)


class RepeatedLoader(Iterator[Any]):
    """An endless iterator over the batches of a loader, which starts the loader again when it is exhausted.

    `loading` is a pair (aggregated state, strict). If it is given, the loader first loads its part of the state. Raises
    DataError if a pass over the loader gives no batch. The first pass after loading a state may be empty, because the
    state may be that of the end of a pass.
    """

    def __init__(self, loader: Any, loading: tuple[Any, bool] | None = None):
        self.loader, self.samples = loader, 0
        if loading is not None:
            state, strict = loading
            # The state was aggregated from all workers, and each extracts its own part.
            part = _call_with_strict(loader.deaggregate_state_dict, state, strict)
            _call_with_strict(loader.load_state_dict, part, strict)
        self._batches = self._repeat_forever(may_be_empty=loading is not None)

    def __next__(self) -> Any:
        return next(self._batches)

    def _repeat_forever(self, may_be_empty: bool) -> Iterator[Any]:
        """Yield the batches of the loader in an endless loop, which starts the loader again when it is exhausted.

        Raises DataError for an empty pass. Only the first pass may be empty, and only if `may_be_empty`.
        """
        while True:
            # An empty pass would make this loop endless.
            is_empty = True
            for batch in self.loader:
                is_empty = False
                yield batch
            if is_empty and not may_be_empty:
                raise DataError(
                    "Iterating the dataloader did not return any values. This is possibly because the dataset is too "
                    "small for the specified batch_size or drop_last settings, or because the input function returns "
                    "a generator, which cannot be restarted",
                    where=source.where(),
                    hint="Make sure that the dataloader is able to generate at least one batch.",
                )
            may_be_empty = False

    def state(self, rank: int, cluster: Cluster, step: int, turn: int) -> Any:
        """Return the result of the loader's `state_dict` after step `step` of the run.

        `turn` is the number of steps that worker `rank` has fed. During that call, the streaming position made from the
        arguments is available from `claim_checkpoint`, once.
        """
        where = loader_position.DataLoaderCheckpoint(
            local_worker_id=rank % cluster.workers_per_csx,
            num_workers_per_csx=cluster.workers_per_csx,
            num_csx=cluster.num_csx,
            wse_id=cluster.system_index(rank),
            appliance_step=step,
            worker_step=turn,
            samples_streamed=self.samples,
        )
        with loader_position.offer_checkpoint(where):
            return self.loader.state_dict()


def _call_with_strict(method: Callable[..., Any], state: Any, strict: bool) -> Any:
    """Call a method of the loader with `state`, and with `strict` if the method accepts it.

    Methods written for release 2.0 do not accept `strict`.
    """
    parameters = inspect.signature(method).parameters
    # Inspect the signature, because a TypeError raised inside the method would be indistinguishable.
    takes_it = "strict" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return method(state, strict=strict) if takes_it else method(state)
