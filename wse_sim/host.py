"""Rates and latencies of the computers around the wafers.

They cover the input workers, the control of steps, the weight host (MemoryX) and the start of a job.

Keys of the sources: ALCF, the logs of the Argonne testbeds' documentation (github.com/argonne-lcf, the same rows as in
`validation/measured.json`). AISTS, public logs of ALCF's course "AI science training series", which are rows too.
GLOSS, the vendor's glossary on MemoryX and SwarmX. SDKWP as in `machine.py`. The source of a fitted constant names the
row that it was fitted on; that row is not a test of the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.machine import SourcedValues

# The other fields are divisors or counts, so they have to be positive.
_FIELDS_THAT_MAY_BE_ZERO = ("step_control_s", "programming_s", "first_weights_s", "weight_transfer_s", "tree_node_s")


@dataclass(frozen=True)
class Host:
    """The rates and latencies with which computers outside the wafers feed a job.

    Numbers of workers and rates are those of one system.

    - `workers`: input workers that prepare batches
    - `worker_bytes_per_s`: bytes of batch tensors, as the step takes them, that one worker prepares in a second; bytes
      of pictures do not count
    - `worker_tokens_per_s`: places of tokenised text that one worker reads, masks and collates in a second
    - `worker_picture_elements_per_s`: elements of picture tensors that one worker decodes and crops in a second
    - `step_control_s`: seconds on the host for each step, whatever it computes
    - `programming_s`: seconds in which the system is programmed before the first step
    - `first_weights_s`: fixed seconds of sending the weights once, before the first step
    - `first_weights_bytes_per_s`: rate at which the weights are then sent
    - `stream_bits_per_s`: rate at which the weight host sends weights and receives gradients in weight-streaming mode,
      each way; it does not depend on the number of systems
    - `weight_transfer_s`: fixed seconds of each transfer in this mode: the weights of a layer in one sweep, or its
      gradients
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
    worker_tokens_per_s: float
    worker_picture_elements_per_s: float
    step_control_s: float
    programming_s: float
    first_weights_s: float
    first_weights_bytes_per_s: float
    stream_bits_per_s: float
    weight_transfer_s: float
    fan_out: int
    tree_node_s: float
    sources: Mapping[str, str] = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in HOST_FIELDS:
            value = getattr(self, name)
            if value < 0 or (value == 0 and name not in _FIELDS_THAT_MAY_BE_ZERO):
                raise LazyError(f"the host has {name} = {value}", hint="Give a positive number.")

    def input_seconds(self, load: "InputLoad", systems: int = 1) -> float:
        """Return the seconds in which the workers of all `systems` prepare a batch with the total `load`."""
        return sum(self._worker_seconds(load).values()) / (systems * self.workers)

    def input_source(self, load: "InputLoad") -> str:
        """Return the source of the rate that takes most of a worker's time for `load`."""
        seconds = self._worker_seconds(load)
        return self.sources[max(seconds, key=seconds.__getitem__)]

    def _worker_seconds(self, load: "InputLoad") -> dict[str, float]:
        """Return the seconds of one worker for each kind of work: name of the rate -> seconds."""
        return {
            "worker_bytes_per_s": load.nbytes / self.worker_bytes_per_s,
            "worker_tokens_per_s": load.tokens / self.worker_tokens_per_s,
            "worker_picture_elements_per_s": load.picture_elements / self.worker_picture_elements_per_s,
        }

    def first_weights_seconds(self, weight_bytes: int) -> float:
        """Return the seconds of sending `weight_bytes` once, before the first step."""
        return self.first_weights_s + weight_bytes / self.first_weights_bytes_per_s

    def start_seconds(self, weight_bytes: int) -> float:
        """Return the seconds from the end of compilation to the first step.

        They are the programming of the system, and sending `weight_bytes` once.
        """
        return self.programming_s + self.first_weights_seconds(weight_bytes)

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


@dataclass(frozen=True)
class InputLoad:
    """The work of the input workers for one batch.

    - `nbytes`: bytes of all batch tensors that are not pictures
    - `tokens`: places of its tokenised texts
    - `picture_elements`: elements of its pictures
    """

    nbytes: int
    tokens: int = 0
    picture_elements: int = 0


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
            "a lower bound from fcmnist_cs2_a: 479,188.55 samples/s of 3,144 bytes from five workers, 1 % of the edge",
        ),
        "worker_tokens_per_s": (
            1.064e6,
            "fitted on esm2_35m_cs3: 982 samples/s of 1,026 places from one worker. The workers limited this run: it "
            "made up for the 9 s in which a checkpoint was saved",
        ),
        "worker_picture_elements_per_s": (
            657.4 * 3 * 224 * 224 / 2,
            "fitted on vit_base_cs2: 657.4 pictures/s of 3 x 224 x 224 from two workers, which decode JPEG files, "
            "resize, crop and normalise",
        ),
        "step_control_s": (
            256 / 358_417.08,
            "fitted on fcmnist_cs2_b: 358,417 samples/s with batch 256. A CS-1 had the same rate, and batch 128 "
            "(fcmnist_pt_r171) 37 % of it, so the time is taken to be one of steps. Release 1.5 took "
            "0.54 ms (fcmnist_cs2_a)",
        ),
        "programming_s": (241.4, "fitted on prog_dit, ALCF: 241.4 s on a CS-3; other logs have 200 to 245 s"),
        "first_weights_s": (2.6, "fitted on send_w_vit_base, ALCF: 86.6 M weights of 2 bytes in 2.76 s"),
        "first_weights_bytes_per_s": (
            0.98e9,
            "fitted on send_w_llama7 and send_w_llama7_r210: 6.74 G weights of 2 bytes in 13.2 s in October 2025, and "
            "in 20.4 s in November and December (AISTS); the geometric mean of the two rates",
        ),
        "stream_bits_per_s": (
            1.2e12,
            "GLOSS: weights are broadcast and gradients reduced at line rate, which is SDKWP's 12 x 100 Gb of a system",
        ),
        "weight_transfer_s": (
            46e-6,
            "fitted on fcmnist_pt_r192, ALCF: a step of eleven layers takes 1.02 ms, of which products and bytes "
            "explain less than 3 %; the rate is that of the last report, and others of this log are up to 25 % higher",
        ),
        "fan_out": (4, "GLOSS: a node of the tree serves one to four"),
        "tree_node_s": (2e-6, "assumed: a switch of a data centre and a sum of packets; nothing is published"),
    }
)
"""The default hosts of a CS-1, CS-2 or CS-3."""
