"""The kernel library, in the order of benefit: the first kernel that matches a node computes it."""

from lazytensor.kernels.joining import CONCAT, SLICE_UPDATE
from lazytensor.kernels.kernel import Kernel, Match
from lazytensor.kernels.matmul import MATMUL
from lazytensor.kernels.numpy_call import CALL
from lazytensor.kernels.softmax import SOFTMAX, SOFTMAX_CROSS_ENTROPY

LIBRARY: tuple[Kernel, ...] = tuple(
    sorted((MATMUL, SOFTMAX, SOFTMAX_CROSS_ENTROPY, CONCAT, SLICE_UPDATE, CALL), key=lambda kernel: -kernel.benefit)
)
BY_NAME: dict[str, Kernel] = {kernel.name: kernel for kernel in LIBRARY}

__all__ = ["BY_NAME", "CALL", "LIBRARY", "Match", "Kernel"]
