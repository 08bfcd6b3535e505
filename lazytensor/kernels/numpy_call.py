"""The fallback kernel "call": run any operation by its NumPy function, and copy the result into the planned array."""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work
from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Match, Step
from lazytensor.ops.op import OPS


def _match(n: Node) -> Match:
    return Match(n.inputs, {"op": n.op, **({"attrs": n.attrs} if n.attrs else {})})


def _run(name: str, attrs: Attrs, outs: Arrays, ins: Arrays) -> None:
    # Overflow gives infinity, as on the device. A NumPy warning would point to this file, not to the script.
    with np.errstate(all="ignore"):
        results = OPS[name].eval(*ins, **attrs)
    # Copied, because the plan has assigned an array to the result.
    for out, value in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
        np.copyto(out, value, casting="unsafe")


def _bind(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    return partial(_run, attrs["op"], attrs.get("attrs", {}), outs, ins)


def _work(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Work:
    return OPS[attrs["op"]].work(outs[0] if len(outs) == 1 else outs, *ins, **attrs.get("attrs", {}))


CALL = Kernel("call", match=_match, bind=_bind, work=_work, benefit=-1)
