"""Function: the lines of one function of LLVM while it is written, and the names that a text knows in it."""

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from lazytensor.llvm.number_types import BOOL, INT, KINDS, Array, Kind, Unknown, Value, conversion, literal
from lazytensor.llvm.register_tiles import LANES

END = "end "

WrittenOut = Callable[
    [ast.arguments, Sequence[ast.stmt], Sequence["Value | Array"], "Scope"], tuple["Value | Array", ...]
]
"""Writes the lines of a function where it is called: parameters, body, arguments, its scope; what it gives."""

ABREAST, MOST_ABREAST = 4, 8
"""Vectors of a loop whose instructions are mixed. An exponential is 20 instructions that wait for each other,
and a processor looks ahead by less than two of them; LLVM would mix none, as constants alone fill the registers.

Where one long chain leads from few elements to one result, more are mixed, so that the units for sums work while those
for products do: two exponentials and quotients take a tenth less. With more elements in use registers run out."""
_CHAIN, _ELEMENTS = 150, 3
"""The lines of such a loop at least, and the elements of arrays that it uses at most."""


class Function:
    """Collects instructions in blocks; what is declared stands outside, places on the stack at the beginning."""

    def __init__(self, written_out: WrittenOut) -> None:
        self.written_out = written_out
        self.declarations: set[str] = set()
        self.tiles: set[str] = set()
        self.nexts: list[str] = []  # where `continue` goes, for each loop around
        self.ends: list[str] = []  # and where `break` goes
        self._memory: list[str] = []
        self._lines: list[str] = []
        self._places: list[str] = []
        self._count = self._loops = 0
        self.notes: list[str] = []

    def line(self, text: str) -> None:
        """One instruction without a result."""
        self._lines.append(text)

    def new(self, text: str) -> str:
        """One instruction; the name of its result."""
        name = self._name("v")
        self._lines.append(f"%{name} = {text}")
        return f"%{name}"

    def place(self, kind: Kind) -> str:
        """A place for a number, which LLVM will keep in a register."""
        name = self._name("s")
        self._places.append(f"%{name} = alloca {kind.llvm}")
        return f"%{name}"

    def array(self, kind: Kind, count: int) -> str:
        """An array of few numbers on the stack, which LLVM may keep in registers."""
        name = self._name("a")
        self._places.append(f"%{name} = alloca [{count} x {kind.stored}], align 64")
        return f"%{name}"

    def memory(self, size: str) -> str:
        """A block of so many bytes, freed when the same line asks again, and at the end."""
        self.declarations |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        name = self._name("m")
        self._places += [f"%{name} = alloca ptr", f"store ptr null, ptr %{name}"]
        self._memory.append(name)
        self.line(f"call void @free(ptr {self.new(f'load ptr, ptr %{name}')})")
        block = self.new(f"call ptr @malloc(i64 {size})")
        self.line(f"store ptr {block}, ptr %{name}")
        return block

    def constants(self, table: np.ndarray) -> Array:
        """Return an array of constants of the module, a table of one dimension."""
        kind = KINDS[table.dtype.name]
        texts = ", ".join(f"{kind.stored} {literal(number, kind).text}" for number in table.tolist())
        name = f"@table{hashlib.blake2b(kind.stored.encode() + table.tobytes(), digest_size=8).hexdigest()}"
        self.declarations.add(f"{name} = internal constant [{table.size} x {kind.stored}] [{texts}], align 64")
        return Array(kind, name)

    def element(self, array: Array, place: Value) -> str:
        """Return the pointer to an element of an array."""
        # `inbounds`: an element lies in its array, from which LLVM knows that addresses do not wrap around.
        at = self.converted(place, INT).text
        return self.new(f"getelementptr inbounds {array.kind.stored}, ptr {array.text}, i64 {at}")

    def end(self, result: str) -> None:
        """Leave the function with a result, which is a type and a value."""
        self.line(f"{END}{result}")

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Lines that are written now and added later."""
        before, self._lines = self._lines, []
        try:
            yield self._lines
        finally:
            self._lines = before

    def add(self, lines: list[str]) -> None:
        """Lines that were written apart."""
        self._lines += lines

    def labels(self, *names: str) -> list[str]:
        """New labels of blocks."""
        return [self._name(name) for name in names]

    def begin(self, label: str) -> None:
        """What follows is the block of this label."""
        self._lines.append(f"{label}:")

    def position(self) -> int:
        """Where the next line will stand."""
        return len(self._lines)

    def kept_a_loop(self, first: int | None = None) -> str:
        """The mark of a jump that ends a loop: LLVM must not write its steps out, but run several vectors abreast.

        `first` is where the lines of a loop begin that may have very many steps.
        """
        body = [] if first is None else self._lines[first:]
        is_innermost = not any(line.startswith("br label %head") for line in body)
        is_chain = len(body) >= _CHAIN and sum("getelementptr" in line for line in body) <= _ELEMENTS
        return self._marked(MOST_ABREAST if is_innermost and is_chain else ABREAST)

    def all_lanes(self, count: int) -> str:
        """The mark of a jump that ends a loop over lanes, which has `count` steps: LLVM computes them abreast.

        No loop is left then, and the lanes of a sum become registers.
        """
        # LLVM chooses the width of a vector, and whether the few steps in vectors are written out, which they may be
        # again: it prints a remark about each loop that it cannot compile as a mark demands.
        abreast = count // LANES
        in_vectors = '!{!"llvm.loop.vectorize.followup_vectorized", !{!"llvm.loop.isvectorized", i32 1}}'
        return self._marked(abreast if abreast.bit_count() == 1 else 1, in_vectors)

    def _marked(self, abreast: int, *more: str) -> str:
        """The mark of a loop that is not written out, with so many vectors abreast."""
        self._loops += 1
        facts = ('!{!"llvm.loop.unroll.disable"}', f'!{{!"llvm.loop.interleave.count", i32 {abreast}}}', *more)
        # A loop's mark begins with itself, so that no two are the same.
        self.notes.append(f"!{self._loops} = distinct !{{!{self._loops}, {', '.join(facts)}}}")
        return f", !llvm.loop !{self._loops}"

    def converted(self, value: Value, kind: Kind) -> Value:
        """The number as another kind; truth is what is not zero."""
        if value.kind is kind:
            return value
        if kind is BOOL:
            test, zero = ("fcmp une", "0.0") if value.kind.sort == "f" else ("icmp ne", "0")
            return Value(kind, self.new(f"{test} {value.kind.llvm} {value.text}, {zero}"))
        instruction = conversion(value.kind, kind)
        if not instruction:
            return Value(kind, value.text)
        return Value(kind, self.new(f"{instruction} {value.kind.llvm} {value.text} to {kind.llvm}"))

    def module(self, name: str, result: str) -> str:
        """The whole text of a function with the result type `result`."""
        declared, notes = "\n".join(sorted(self.declarations)), "\n".join(self.notes)
        places, body = "\n".join(self._places), "\n".join(line for each in self._lines for line in self._ended(each))
        return f"{declared}\ndefine {result} @{name}(ptr %table) {{\nentry:\n{places}\n{body}\n}}\n{notes}\n"

    def _ended(self, line: str) -> list[str]:
        """A line; where it leaves the function, all memory is freed before."""
        if not line.startswith(END):
            return [line]
        frees = []
        for name in self._memory:
            block = self._name("v")
            frees += [f"%{block} = load ptr, ptr %{name}", f"call void @free(ptr %{block})"]
        return [*frees, f"ret {line.removeprefix(END)}"]

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


class Scope:
    """The names of one text or function body, and the module in which others are looked up."""

    def __init__(self, function: Function, module: str, text: str = ""):
        self.function, self.module, self.text = function, module, text
        self.names: dict[str, Array | tuple[Kind, str]] = {}

    def store(self, name: str, value: Value | Array, may_change: bool = False) -> None:
        """Give a name its number or its array; a number keeps its kind, but in straight lines."""
        known = self.names.get(name)
        if isinstance(value, Array):
            self.names[name] = value
            return
        if isinstance(known, Array) or (known and known[0] is not value.kind and not may_change):
            raise Unknown(f"{name} is {known} and {value.kind.name}")
        if known is None or known[0] is not value.kind:
            known = self.names[name] = (value.kind, self.function.place(value.kind))
        self.function.line(f"store {value.kind.llvm} {value.text}, ptr {known[1]}")
