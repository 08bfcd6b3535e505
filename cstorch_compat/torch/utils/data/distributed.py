"""The distributed sampler of `torch.utils.data.distributed`."""

import math
from collections.abc import Iterator, Sized
from typing import Any

from cstorch_compat.torch.distributed import process_group
from lazytensor.core import source
from lazytensor.data import Sampler
from lazytensor.errors import OptionInvalid
from lazytensor.random import Generator


class DistributedSampler(Sampler[int]):
    """A sampler that gives every `num_replicas`-th index from `rank` on.

    - `num_replicas`, `rank`: by default those of the process group.
    - `shuffle`, `seed`: shuffle with seed + epoch, where `set_epoch` sets the epoch.
    - `drop_last`: drop indices that not all replicas can get; otherwise repeat the first ones.

    Raises ValueError unless 0 <= rank < num_replicas.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        self.num_replicas = process_group.get_world_size() if num_replicas is None else num_replicas
        self.rank = process_group.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise OptionInvalid(
                f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]",
                where=source.where(),
                hint="Pass a rank of at least 0 and below num_replicas.",
            )
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        count, replicas = len(dataset), self.num_replicas
        # With drop_last all replicas get an equal number; otherwise the first samples are repeated to make it equal.
        is_cut = drop_last and count % replicas != 0
        self.num_samples = math.ceil((count - replicas) / replicas) if is_cut else math.ceil(count / replicas)
        self.total_size = self.num_samples * replicas

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        order = (
            Generator().manual_seed(self.seed + self.epoch).permutation(count).tolist()
            if self.shuffle
            else range(count)
        )
        indices = list(order)
        while not self.drop_last and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        # Strided instead of contiguous, so that sorted data is spread over all replicas.
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which changes the order of shuffled indices."""
        self.epoch = epoch
