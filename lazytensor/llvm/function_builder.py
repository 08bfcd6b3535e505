"""Build the LLVM text of one function, and keep the scope of names in it."""

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
"""A function (parameters, body, arguments, scope) that inlines a function at its call, and returns its results."""

ABREAST, MOST_ABREAST = 4, 8
"""The number of vectors that a loop interleaves (LLVM's interleave count).

An exponential is 20 dependent instructions, and a processor looks ahead by less than two of them. LLVM would choose no
interleaving, because the constants fill the registers. A loop with one long dependency chain on few elements
interleaves MOST_ABREAST, so that adders and multipliers overlap: two exponentials and quotients take a tenth less time.
With more elements in use, registers run out.
"""
_CHAIN, _ELEMENTS = 150, 3
"""The minimum number of lines in such a loop, and the maximum number of array elements that it uses."""


class Function:
    """Collects the instructions of one function in blocks.

    Declarations come first, stack slots at the function's start.
    """

    def __init__(self, written_out: WrittenOut) -> None:
        self.written_out = written_out
        self.declarations: set[str] = set()
        self.tiles: set[str] = set()
        self.nexts: list[str] = []  # the target of `continue` for each open loop
        self.ends: list[str] = []  # the target of `break` for each open loop
        self._memory: list[str] = []
        self._lines: list[str] = []
        self._places: list[str] = []
        self._count = self._loops = 0
        self.notes: list[str] = []

    def line(self, text: str) -> None:
        """Add an instruction without a result."""
        self._lines.append(text)

    def new(self, text: str) -> str:
        """Add an instruction and return the name of its result."""
        name = self._name("v")
        self._lines.append(f"%{name} = {text}")
        return f"%{name}"

    def place(self, kind: Kind) -> str:
        """Add a stack slot for a number and return its name. LLVM keeps it in a register."""
        name = self._name("s")
        self._places.append(f"%{name} = alloca {kind.llvm}")
        return f"%{name}"

    def array(self, kind: Kind, count: int) -> str:
        """Add a small array on the stack and return its name."""
        name = self._name("a")
        self._places.append(f"%{name} = alloca [{count} x {kind.stored}], align 64")
        return f"%{name}"

    def memory(self, size: str) -> str:
        """Add a heap block and return its name. `size` is the text of its bytes, a name or a literal.

        It is freed when the same line runs again, and when the function returns.
        """
        self.declarations |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        name = self._name("m")
        self._places += [f"%{name} = alloca ptr", f"store ptr null, ptr %{name}"]
        self._memory.append(name)
        self.line(f"call void @free(ptr {self.new(f'load ptr, ptr %{name}')})")
        block = self.new(f"call ptr @malloc(i64 {size})")
        self.line(f"store ptr {block}, ptr %{name}")
        return block

    def constants(self, table: np.ndarray) -> Array:
        """Add a one-dimensional table as a constant of the module, and return it as an array. Equal tables are one
        constant.
        """
        kind = KINDS[table.dtype.name]
        texts = ", ".join(f"{kind.stored} {literal(number, kind).text}" for number in table.tolist())
        name = f"@table{hashlib.blake2b(kind.stored.encode() + table.tobytes(), digest_size=8).hexdigest()}"
        self.declarations.add(f"{name} = internal constant [{table.size} x {kind.stored}] [{texts}], align 64")
        return Array(kind, name)

    def element(self, array: Array, place: Value) -> str:
        """Add the instructions that compute the address of element `place` of an array, and return its name."""
        # `inbounds`: the element is in its array, so that LLVM can assume that addresses do not wrap around.
        at = self.converted(place, INT).text
        return self.new(f"getelementptr inbounds {array.kind.stored}, ptr {array.text}, i64 {at}")

    def end(self, result: str) -> None:
        """Add a return of `result`, which is a type and a value."""
        self.line(f"{END}{result}")

    @contextmanager
    def apart(self) -> Iterator[list[str]]:
        """Collect the lines written in this block in a separate list, to be added later with `add`."""
        before, self._lines = self._lines, []
        try:
            yield self._lines
        finally:
            self._lines = before

    def add(self, lines: list[str]) -> None:
        """Add lines that were collected by `apart`."""
        self._lines += lines

    def labels(self, *names: str) -> list[str]:
        """Return new block labels."""
        return [self._name(name) for name in names]

    def begin(self, label: str) -> None:
        """Start the block of this label."""
        self._lines.append(f"{label}:")

    def position(self) -> int:
        """Return the number of lines so far."""
        return len(self._lines)

    def kept_a_loop(self, first: int | None = None) -> str:
        """Return the loop metadata for a jump that ends a loop: LLVM must not unroll it, but interleave several
        vectors.

        `first` is the position of the first line of a loop that may have very many iterations.
        """
        body = [] if first is None else self._lines[first:]
        is_innermost = not any(line.startswith("br label %head") for line in body)
        is_chain = len(body) >= _CHAIN and sum("getelementptr" in line for line in body) <= _ELEMENTS
        return self._marked(MOST_ABREAST if is_innermost and is_chain else ABREAST)

    def all_lanes(self, count: int) -> str:
        """Return the loop metadata for a loop over `count` lanes, which LLVM then computes all at the same time.

        They are in vectors, whose width LLVM chooses. No loop is left then, and the lanes of a sum become registers.
        """
        # LLVM chooses the vector width, and may unroll the remaining loop. The width is not forced, because LLVM warns
        # about each loop that it cannot compile as forced.
        abreast = count // LANES
        in_vectors = '!{!"llvm.loop.vectorize.followup_vectorized", !{!"llvm.loop.isvectorized", i32 1}}'
        return self._marked(abreast if abreast.bit_count() == 1 else 1, in_vectors)

    def _marked(self, abreast: int, *more: str) -> str:
        """Return loop metadata that disables unrolling and sets the interleave count to `abreast`.

        Its definition is added to `notes`. `more` are further metadata.
        """
        self._loops += 1
        facts = ('!{!"llvm.loop.unroll.disable"}', f'!{{!"llvm.loop.interleave.count", i32 {abreast}}}', *more)
        # The metadata node of a loop refers to itself first, so that no two loops share one.
        self.notes.append(f"!{self._loops} = distinct !{{!{self._loops}, {', '.join(facts)}}}")
        return f", !llvm.loop !{self._loops}"

    def converted(self, value: Value, kind: Kind) -> Value:
        """Return a number converted to another type, by an instruction if one is needed.

        As a boolean it is True unless it is zero. As an integer, a float loses its fraction.
        """
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
        """Return the LLVM text of the function `name` with the result type `result`, with its declarations and
        metadata.

        The function takes the address of the argument table.
        """
        declared, notes = "\n".join(sorted(self.declarations)), "\n".join(self.notes)
        places, body = "\n".join(self._places), "\n".join(line for each in self._lines for line in self._ended(each))
        return f"{declared}\ndefine {result} @{name}(ptr %table) {{\nentry:\n{places}\n{body}\n}}\n{notes}\n"

    def _ended(self, line: str) -> list[str]:
        """Return the lines for `line`. A return is preceded by freeing all memory."""
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
    """The names of a text or function body, and the module in which other names are looked up."""

    def __init__(self, function: Function, module: str, text: str = ""):
        self.function, self.module, self.text = function, module, text
        self.names: dict[str, Array | tuple[Kind, str]] = {}

    def store(self, name: str, value: Value | Array, may_change: bool = False) -> None:
        """Assign a number or an array to a name.

        Raise Unknown if a number's type differs from that of the name, unless `may_change` (outside of loops and
        conditions), and for a number assigned to the name of an array. An array replaces anything.
        """
        known = self.names.get(name)
        if isinstance(value, Array):
            self.names[name] = value
            return
        if isinstance(known, Array) or (known and known[0] is not value.kind and not may_change):
            raise Unknown(f"the variable {name} with two types, {known} and {value.kind.name}")
        if known is None or known[0] is not value.kind:
            known = self.names[name] = (value.kind, self.function.place(value.kind))
        self.function.line(f"store {value.kind.llvm} {value.text}, ptr {known[1]}")
