"""CRC-32 of many bytes, by the processor's product without carries where it has one: several times as fast as zlib.

A few bytes stand for all before them: halves of sixteen are multiplied by powers of x modulo the polynomial, which
moves them over the next ones, and added there. Source: Gopal and others, "Fast CRC computation for generic polynomials
using PCLMULQDQ instruction", Intel 2009, for polynomials whose bits are reversed.
"""

import ctypes
import functools
import importlib
import platform
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor import config

_LEAST_BYTES = 1 << 12
# In a tenth of a second, which it takes to import LLVM, zlib sees to 300 MB.
_FEW_BYTES = 1 << 28
_POLYNOMIAL = 0x104C11DB7
_ABREAST = 4  # vectors, each of which waits for its own product before
_ALL = 0xFFFFFFFF
_TEXT = """
declare {vector} @llvm.x86.{name}({vector}, {vector}, i8)

define internal {vector} @over({vector} %x, {vector} %next) alwaysinline {{
  %low = call {vector} @llvm.x86.{name}({vector} %x, {vector} {powers}, i8 0)
  %high = call {vector} @llvm.x86.{name}({vector} %x, {vector} {powers}, i8 17)
  %both = xor {vector} %low, %high
  %sum = xor {vector} %both, %next
  ret {vector} %sum
}}

define void @crc_fold(ptr %bytes, i64 %count, i32 %before, ptr %rest) {{
entry:
  %end = getelementptr [{block} x i8], ptr %bytes, i64 %count
  %long = zext i32 %before to i64
  %first = insertelement {vector} zeroinitializer, i64 %long, i64 0
{begin}
  %begun = xor {vector} %w0, %first
  br label %head
head:
  %at = phi ptr [ %bytes, %entry ], [ %next, %body ]
{phis}
  %next = getelementptr i8, ptr %at, i64 {block}
  %is_over = icmp eq ptr %next, %end
  br i1 %is_over, label %out, label %body
body:
{moves}
  br label %head
out:
{end}
  ret void
}}
"""

_seen = 0


def crc32(raw: memoryview, before: int = 0) -> int:
    """The CRC-32 of contiguous bytes behind others whose CRC-32 is `before`, as `zlib.crc32` has it."""
    global _seen
    _seen += len(raw)
    fold, block = _fold() if _seen > _FEW_BYTES and len(raw) >= _LEAST_BYTES else (None, 0)
    if fold is None:
        return zlib.crc32(raw, before)
    count = len(raw) // block
    rest = np.empty(block, np.uint8)
    fold(np.frombuffer(raw, np.uint8).ctypes.data, count, before ^ _ALL, rest.ctypes.data)
    # zlib begins with ones, which are in `rest` already.
    return zlib.crc32(raw[count * block :], zlib.crc32(rest.data, _ALL))


@functools.cache
def _fold() -> tuple[Callable[..., None] | None, int]:
    """A function from where bytes begin, how many blocks they are and a beginning to where its rest of them goes.

    Its second is the size of a block, and of the rest, in bytes.
    """
    if platform.machine() != "x86_64" or not config.current().jit:
        return None, 0
    # Imported here: few programs save that much.
    machine: Any = importlib.import_module("lazytensor.native.machine")
    if not machine.has_features("pclmul"):
        return None, 0
    words = 8 if machine.has_features("vpclmulqdq", "avx512f") else 2
    address = machine.addresses(_text(words), ("crc_fold",))["crc_fold"]
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32, ctypes.c_void_p)
    return kind(address), _block(words)


def _block(words: int) -> int:
    return _ABREAST * words * 8


def _text(words: int) -> str:
    """LLVM's text for vectors of so many words of 64 bits."""
    vector = f"<{words} x i64>"
    bits = 8 * _block(words)
    # For the lower half of sixteen bytes, which lies further from what it is moved to, and the upper one.
    pair = f"i64 {_reversed_power(bits + 32)}, i64 {_reversed_power(bits - 32)}"
    lines: dict[str, list[str]] = {"begin": [], "phis": [], "moves": [], "end": []}
    for i in range(_ABREAST):
        for part, name, base in (("begin", "w", "%bytes"), ("moves", "n", "%next")):
            lines[part].append(f"  %{name}p{i} = getelementptr {vector}, ptr {base}, i64 {i}")
            lines[part].append(f"  %{name}{i} = load {vector}, ptr %{name}p{i}, align 1")
        lines["phis"].append(f"  %x{i} = phi {vector} [ {f'%w{i}' if i else '%begun'}, %entry ], [ %y{i}, %body ]")
        lines["moves"].append(f"  %y{i} = call {vector} @over({vector} %x{i}, {vector} %n{i})")
        lines["end"].append(f"  %r{i} = getelementptr {vector}, ptr %rest, i64 {i}")
        lines["end"].append(f"  store {vector} %x{i}, ptr %r{i}, align 1")
    return _TEXT.format(
        vector=vector,
        name="pclmulqdq" + (".512" if words == 8 else ""),
        powers=f"<{', '.join([pair] * (words // 2))}>",
        block=_block(words),
        **{part: "\n".join(text) for part, text in lines.items()},
    )


def _reversed_power(exponent: int) -> int:
    """A power of x modulo the polynomial, its bits in the order of the checksum."""
    power = 1
    for _ in range(exponent):
        power <<= 1
        power ^= _POLYNOMIAL if power >> 32 else 0
    return int(f"{power:032b}"[::-1], 2) << 1
