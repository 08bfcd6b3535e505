"""Register tiles, addresses and copies as Numba's functions; see `lazytensor.native.tiles`."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from lazytensor.native.tiles import DOTS, LANES, ROWS, TILES, VECTORS, WORD, Emit

__all__ = ["DOTS", "LANES", "ROWS", "VECTORS", "address", "copied", "dots", "products", "products_narrow"]
_move: Callable[..., Any] = cgutils.raw_memcpy  # Numba's own interface has no types


def _intrinsic(emit: Emit, arity: int) -> Any:
    """A function of `arity` whole numbers without a result."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit(builder, arguments)
        return context.get_dummy_value()

    # Numba reads the number of arguments off the typing function, so there is one for each arity.
    def six(context: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        return types.void(*(types.int64,) * 6), generate

    def seven(context: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
        return types.void(*(types.int64,) * 7), generate

    return intrinsic(six if arity == 6 else seven)


def _address(context: Any, array: Any) -> Any:
    """Where the elements of an array begin."""

    def generate(ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = ctx.make_array(signature.args[0])(ctx, builder, arguments[0]).data
        return builder.ptrtoint(data, WORD)

    return types.int64(array), generate


def _copied(context: Any, source: Any, target: Any, count: Any) -> Any:
    """Copy `count` elements of float32 from address to address, where an index would be checked for its sign."""

    def generate(ctx: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = [builder.inttoptr(a, ir.IntType(8).as_pointer()) for a in arguments[:2]]
        _move(builder, pointers[1], pointers[0], arguments[2], 4)
        return ctx.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


address: Any = intrinsic(_address)
copied: Any = intrinsic(_copied)
products, products_narrow, dots = (_intrinsic(*TILES[name]) for name in ("products", "products_narrow", "dots"))
