"""Rearrangements that join several arrays: concatenation and the write into a part."""

from functools import partial

import numpy as np

from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Step, by_op, op_work


def _concat(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    return partial(np.concatenate, ins, attrs["dim"], outs[0])


def _write(out: np.ndarray, part: np.ndarray, base: np.ndarray, value: np.ndarray) -> None:
    # All of the base, then over it: a copy of what surrounds the part alone would be several.
    np.copyto(out, base)
    np.copyto(part, value)


def _slice_update(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    starts, limits, strides = attrs["starts"], attrs["limits"], attrs["strides"]
    # The window into the output is cut once, when the step is bound; a step only copies.
    part = outs[0][tuple(slice(s, e, t) for s, e, t in zip(starts, limits, strides, strict=True))]
    return partial(_write, outs[0], part, *ins)


CONCAT = Kernel("concat", match=by_op("concat"), bind=_concat, work=op_work("concat"))
SLICE_UPDATE = Kernel("slice_update", match=by_op("slice_update"), bind=_slice_update, work=op_work("slice_update"))
