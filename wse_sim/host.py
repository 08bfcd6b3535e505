"""Rates and latencies of the computers around the wafers.

They cover the input workers, the control of steps, the weight host (MemoryX) and the start of a job.

Keys of the sources: ALCF, the logs of the Argonne testbeds' documentation (github.com/argonne-lcf, the same rows as in
`validation/measured.json`). GLOSS, the vendor's glossary on MemoryX and SwarmX. SDKWP as in `machine.py`. The source of
a fitted constant names the row that it was fitted on; that row is not a test of the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.machine import SourcedValues

# The other fields are divisors or counts, so they have to be positive.
_FIELDS_THAT_MAY_BE_ZERO = ("step_control_s", "programming_s", "tree_node_s")


@dataclass(frozen=True)
class Host:
    """The rates and latencies with which computers outside the wafers feed a job.

    Numbers of workers and rates are those of one system.

    - `workers`: input workers that prepare batches
    - `worker_bytes_per_s`: bytes of batch tensors, as the step takes them, that one worker prepares in a second
    - `step_control_s`: seconds on the host between two steps, whatever they compute
    - `programming_s`: seconds in which the system is programmed before the first step
    - `first_weights_bytes_per_s`: rate at which the weights are sent once, after programming
    - `stream_bits_per_s`: rate at which the weight host sends weights and receives gradients in weight-streaming mode,
      each way; it does not depend on the number of systems
    - `fan_out`: children of a node in the tree (SwarmX) between the weight host and the systems; each is served at the
      full rate, so more systems only add depth
    - `tree_node_s`: latency of one tree level in one direction, in seconds
    - `sources`: field name -> source of the number

    Raises LazyError for a negative number, and for zero in a field that must be positive.

    >>> from wse_sim.host import APPLIANCE
    >>> APPLIANCE.workers
    5
    """

    workers: int
    worker_bytes_per_s: float
    step_control_s: float
    programming_s: float
    first_weights_bytes_per_s: float
    stream_bits_per_s: float
    fan_out: int
    tree_node_s: float
    sources: Mapping[str, str] = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in HOST_FIELDS:
            value = getattr(self, name)
            if value < 0 or (value == 0 and name not in _FIELDS_THAT_MAY_BE_ZERO):
                raise LazyError(f"the host has {name} = {value}", hint="Give a positive number.")

    def input_seconds(self, batch_bytes: int, systems: int = 1) -> float:
        """Return the seconds in which the workers of all `systems` prepare a batch of `batch_bytes` in total."""
        return batch_bytes / (systems * self.workers * self.worker_bytes_per_s)

    def start_seconds(self, weight_bytes: int) -> float:
        """Return the seconds from the end of compilation to the first step.

        They are the programming of the system, and sending `weight_bytes` once.
        """
        return self.programming_s + weight_bytes / self.first_weights_bytes_per_s

    def tree_seconds(self, systems: int) -> float:
        """Return the latency in seconds of the tree over `systems` wafers: one word up, and the sum down again."""
        return 2 * self.tree_depth(systems) * self.tree_node_s

    def tree_depth(self, systems: int) -> int:
        """Return the number of tree levels between the weight host and `systems` wafers; 0 for one wafer."""
        # Whole numbers, since a floating-point logarithm of 4 ** n may be less than n.
        depth, reach = 0, 1
        while reach < systems:
            depth, reach = depth + 1, reach * self.fan_out
        return depth


# As `NUMERIC_FIELDS` of a machine: taken from the class, so that a new field is checked without being listed.
HOST_FIELDS = tuple(f.name for f in fields(Host) if f.name != "sources")


def _build_host(table: SourcedValues) -> Host:
    values: dict[str, Any] = {key: value for key, (value, _) in table.items()}
    return Host(sources={key: source for key, (_, source) in table.items()}, **values)


# 479,188.55 samples/s of 784 float32 pixels and an int64 label, from five workers.
_FC_MNIST_BYTES_PER_S = 479_188.55 * (784 * 4 + 8)

APPLIANCE = _build_host(
    {
        "workers": (5, "ALCF: FC-MNIST under R1.5 ran with five worker nodes, the default of that release"),
        "worker_bytes_per_s": (
            _FC_MNIST_BYTES_PER_S / 5,
            "fitted on fcmnist_cs2_a: 479,188.55 samples/s of 3,144 bytes from five workers, 1 % of the edge",
        ),
        "step_control_s": (
            0,
            "assumed to be zero: FC-MNIST's 535 us a step are all attributed to the workers, because all rows have "
            "one batch size, so that the two cannot be separated",
        ),
        "programming_s": (241.4, "fitted on prog_dit, ALCF: 241.4 s on a CS-3; other logs have 200 to 245 s"),
        "first_weights_bytes_per_s": (
            6.74e9 * 2 / 13.2,
            "fitted on send_w_llama7, ALCF: 6.74 G weights of 2 bytes in 13.2 s, under 1 % of the edge",
        ),
        "stream_bits_per_s": (
            1.2e12,
            "GLOSS: weights are broadcast and gradients reduced at line rate, which is SDKWP's 12 x 100 Gb of a system",
        ),
        "fan_out": (4, "GLOSS: a node of the tree serves one to four"),
        "tree_node_s": (2e-6, "assumed: a switch of a data centre and a sum of packets; nothing is published"),
    }
)
"""The default hosts of a CS-1, CS-2 or CS-3."""
