"""The batches of one loader, again and again, and where it is in them."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data import loader_position
from cstorch_compat.cerebras.pytorch.utils.data.process_role import Cluster
from lazytensor.core import source
from lazytensor.errors import DataError

RESTARTABLE_METHODS = ("state_dict", "load_state_dict", "aggregate_state_dict", "deaggregate_state_dict")


def is_restartable(loader: Any) -> bool:
    """Whether a loader defines all of the protocol of restartable loaders."""
    return all(callable(getattr(loader, name, None)) for name in RESTARTABLE_METHODS)


class RepeatedLoader(Iterator[Any]):
    """A worker's loader, or the client's, begun anew whenever it is exhausted.

    With `loading`, a common state and whether it has to fit strictly, the loader takes its part of the state first.
    Raises DataError from a pass that gives no batch; the first one may after a restart, as the state may be that of
    an end.
    """

    def __init__(self, loader: Any, loading: tuple[Any, bool] | None = None):
        self.loader, self.samples = loader, 0
        if loading is not None:
            state, strict = loading
            # A common state was made of those of all workers; each takes its own part out of it.
            part = _call_with_strict(loader.deaggregate_state_dict, state, strict)
            _call_with_strict(loader.load_state_dict, part, strict)
        self._batches = self._repeat_forever(may_be_empty=loading is not None)

    def __next__(self) -> Any:
        return next(self._batches)

    def _repeat_forever(self, may_be_empty: bool) -> Iterator[Any]:
        while True:
            # A pass without a batch would make this loop run forever.
            is_empty = True
            for batch in self.loader:
                is_empty = False
                yield batch
            if is_empty and not may_be_empty:
                raise DataError(
                    "Iterating the dataloader did not return any values. This is possibly because the dataset is too "
                    "small for the specified batch_size or drop_last settings, or because the input function returns "
                    "a generator, which cannot be begun anew",
                    where=source.where(),
                    hint="Make sure that the dataloader is able to generate at least one batch.",
                )
            may_be_empty = False

    def state(self, rank: int, cluster: Cluster, step: int, turn: int) -> Any:
        """The state that the loader says it is in after step number `step` and the worker's `turn`-th turn."""
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
    """Call a method of the protocol; those written for release 2.0 do not take `strict`."""
    parameters = inspect.signature(method).parameters
    # Asked of the signature, not tried: a TypeError from inside of the method would look the same.
    takes_it = "strict" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return method(state, strict=strict) if takes_it else method(state)
