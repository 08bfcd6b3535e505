"""Families of programs: the programs of one step for every size of its batch, read off two of them.

Of the records of a program whatever depends on the batch lies on a straight line: extents, strides, loop bounds, work.
Two programs of the same step, recorded with different batches, give the line; nothing is traced for a third.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, cast

import numpy as np

from lazytensor.errors import CompileError, LazyError
from lazytensor.ir.nest import Nest, NestStore, Scalar
from lazytensor.ir.program import Instr, Program, ProgramBuffer
from lazytensor.ir.types import Type, Where

RECORDED_BATCH_MULTIPLES = (2, 3, 5)
"""Batches, as multiples of the first one, that are recorded until two of them have programs of one form."""
CONSTANT_TOLERANCE = 1e-6
"""How far two constants may be from one over the batch: float32 rounds them."""


def _identity(x: float) -> float:
    return x


def _reciprocal(x: float) -> float:
    return 1 / x


def _bessel_correction(x: float) -> float:
    return x / (x - 1)


BATCH_SCALING_LAWS = ((_identity, _identity), (_reciprocal, _reciprocal), (_bessel_correction, _bessel_correction))
"""How constants follow the number n of samples, or of what they consist of: n of a sum, 1 / n of a mean, and
n / (n - 1) of a variance; each with its inverse."""


INDEX_MEMBERS: Mapping[type, tuple[str, ...]] = {
    Instr: ("reads", "writes"),
    Program: ("state", "batch", "fetches"),
    ProgramBuffer: ("index",),
    Scalar: ("args",),
    NestStore: ("output", "value"),
}
"""Members that number other records, and follow no batch."""


class SuperlinearWork(CompileError):
    """Work of a step grows faster than its batch."""


class NotAffine(Exception):
    """Two records differ in more than numbers that depend on the batch; says where."""


@dataclass(frozen=True)
class BatchInterpolation:
    """Numbers at the batches `first` and `second`, carried on to the batch `at`."""

    first: int
    second: int
    at: int
    _nests: dict[tuple[int, int], Nest] = field(default_factory=dict, repr=False, compare=False)
    _types: dict[tuple[Type, Type], Type] = field(default_factory=dict, repr=False, compare=False)

    def interpolate(self, a: Any, b: Any) -> Any:
        """What stands in the place of `a` and `b`, records of the same form. Raises NotAffine if they are not."""
        kind = a.__class__
        # The line of an equal operation is that of whoever recorded it first.
        if a is b or kind is Where:
            return a
        if kind is not b.__class__:
            raise NotAffine(f"{_shorten(a)} and {_shorten(b)}")
        if kind in INTERPOLATORS:
            return INTERPOLATORS[kind](self, a, b)
        if kind in _member_names_by_type or is_dataclass(kind):
            return self._record(a, b)
        if kind is np.ndarray:
            # What it holds is known for the batches that were recorded, and for no other.
            return a if a.shape == b.shape and np.array_equal(a, b) else None
        if isinstance(a, Mapping):
            return self._mapping(a, b)
        if a == b:
            return a
        if kind is float:
            return self._number(a, b)
        raise NotAffine(f"{_shorten(a)} and {_shorten(b)}")

    def _sequence(self, a: Any, b: Any) -> Any:
        if len(a) != len(b):
            raise NotAffine(f"{len(a)} and {len(b)} entries")
        entries = [x if x is y else self.interpolate(x, y) for x, y in zip(a, b, strict=True)]
        # Most records depend on no batch: what is as it was is not made again.
        return a if all(x is y for x, y in zip(a, entries, strict=True)) else type(a)(entries)

    def _mapping(self, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> Mapping[Any, Any]:
        if a.keys() != b.keys():
            raise NotAffine(f"{', '.join(map(str, a))} and {', '.join(map(str, b))}")
        entries = {key: self.interpolate(value, b[key]) for key, value in a.items()}
        return a if all(entries[key] is value for key, value in a.items()) else entries

    def _type(self, a: Type, b: Type) -> Type:
        if a == b:
            return a
        if (a, b) not in self._types:
            if a.dtype is not b.dtype:
                raise NotAffine(f"{a} and {b}")
            self._types[a, b] = Type(self._sequence(a.shape, b.shape), a.dtype)
        return self._types[a, b]

    def _instr(self, a: Instr, b: Instr) -> Instr:
        # Most of a program, and what it reads and writes is no number: the rest of a record is looked at alone.
        if (a.kernel, a.reads, a.writes, a.direction) != (b.kernel, b.reads, b.writes, b.direction):
            return cast(Instr, self._record(a, b))
        attrs, nest = self.interpolate(a.attrs, b.attrs), self.interpolate(a.nest, b.nest)
        work = a.work if a.work == b.work else self.interpolate(a.work, b.work)
        if work is a.work and nest is a.nest and attrs is a.attrs:
            return a
        return replace(a, attrs=attrs, nest=nest, work=work)

    def _nest(self, a: Nest, b: Nest) -> Nest:
        # Equal layers share their nests, which are most of a program.
        if (id(a), id(b)) not in self._nests:
            self._nests[id(a), id(b)] = self._record(a, b)
        return self._nests[id(a), id(b)]

    def _record(self, a: Any, b: Any) -> Any:
        kind = type(a)
        places = INDEX_MEMBERS.get(kind, ())
        members = {}
        is_same = True
        for name in _member_names(kind):
            x, y = getattr(a, name), getattr(b, name)
            if x is y:
                members[name] = x
                continue
            if name in places and x != y:
                raise NotAffine(f"the {name} {_shorten(x)} and {_shorten(y)}")
            members[name] = self.interpolate(x, y)
            is_same = is_same and members[name] is x
        return a if is_same else kind(**members)

    def _whole(self, a: int, b: int) -> int:
        if a == b:
            return a
        rise, rest = divmod((b - a) * (self.at - self.first), self.second - self.first)
        if rest:
            raise NotAffine(f"{a} and {b}, which give no whole number for {self.at}")
        return a + rise

    def _number(self, a: float, b: float) -> float:
        for samples, constant in BATCH_SCALING_LAWS:
            if a and (samples is not _bessel_correction or a > 1):
                more = constant(samples(a) / self.first * self.second)
                if abs(more - b) <= CONSTANT_TOLERANCE * abs(b):
                    return constant(samples(a) / self.first * self.at)
        raise NotAffine(f"the constants {a} and {b}")


INTERPOLATORS: Mapping[type, Callable[[BatchInterpolation, Any, Any], Any]] = {
    int: BatchInterpolation._whole,
    tuple: BatchInterpolation._sequence,
    list: BatchInterpolation._sequence,
    Type: BatchInterpolation._type,
    Instr: BatchInterpolation._instr,
    Nest: BatchInterpolation._nest,
}
"""What goes through two records of which a program has many."""
_member_names_by_type: dict[type, tuple[str, ...]] = {}


def _member_names(kind: Any) -> tuple[str, ...]:
    """What a record is made of. Asked for each of a hundred thousand records, which are of a dozen kinds."""
    if kind not in _member_names_by_type:
        _member_names_by_type[kind] = tuple(f.name for f in fields(kind) if f.init)
    return _member_names_by_type[kind]


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{type(value).__name__} ..."


@dataclass(frozen=True)
class _FailedRecording:
    """Stands for a recording that failed, or that was done elsewhere."""

    error: LazyError

    def __call__(self, size: int) -> Program:
        raise self.error


@dataclass
class StepFamily:
    """A step for every batch: `program(n)` is its program for a batch of n samples.

    `batch_size` is that of the recording that came first. `record(n)` records the step again for another batch; it is
    called a few times at most, when the first other batch is asked for.
    """

    batch_size: int
    first: Program
    record: Callable[[int], Program] = field(repr=False)
    _ends: dict[int, Program] = field(default_factory=dict, repr=False)

    def program(self, batch_size: int | None = None) -> Program:
        """The program for a batch of that many samples; without a number, as the script has it.

        Raises CompileError, with the user's line, where the script fixes its batch, or leaves the straight line.
        """
        if batch_size in (None, self.batch_size):
            return self.first
        assert batch_size is not None
        if batch_size < 1:
            raise CompileError(f"there is no batch of {batch_size} samples", hint="Give a number from 1 on.")
        ends = self._record_two_batches()
        if batch_size in ends:
            return ends[batch_size]
        (first, a), (second, b) = list(ends.items())[-2:]
        return _interpolate_program(BatchInterpolation(first, second, batch_size), a, b)

    def __getstate__(self) -> dict[str, Any]:
        """The family as plain data, for another process: there no script can be run, so it is recorded before."""
        try:
            self._record_two_batches()
            record = _FailedRecording(CompileError("a step that came from another process cannot be recorded again"))
        except LazyError as e:
            record = _FailedRecording(e)
        except Exception as e:
            # An exception of a script's own may be of a class that the other process has not.
            record = _FailedRecording(
                CompileError(f"the step cannot be recorded for another batch: {type(e).__name__}: {e}")
            )
        return {**vars(self), "record": record}

    def _record_two_batches(self) -> Mapping[int, Program]:
        """Programs of two batches at least, the last two of one form."""
        if len(self._ends) > 1:
            return self._ends
        # Extents of 1 are no loops: the form of a program for one sample is that of no other.
        ends = {self.batch_size: self.first} if self.batch_size > 1 else {}
        for multiple in RECORDED_BATCH_MULTIPLES:
            size = multiple * self.batch_size
            difference, program = None, self.record(size)
            if ends:
                last, before = list(ends.items())[-1]
                difference = find_nonaffine_difference(before, program, last, size)
                if isinstance(difference, SuperlinearWork):
                    raise difference
            ends[size] = program
            # An extent that equals another one by chance may give one of the programs another form.
            if len(ends) > 1 and difference is None:
                self._ends.update(ends)
                return self._ends
        assert difference is not None
        raise difference


def _interpolate_program(line: BatchInterpolation, a: Program, b: Program) -> Program:
    try:
        return cast(Program, line.interpolate(a, b))
    except NotAffine as e:
        raise _nonaffine_error(str(e), None, line.first, line.second) from None


def find_nonaffine_difference(a: Program, b: Program, first: int, second: int) -> CompileError | None:
    """Why no straight line goes through two programs, with the line of the user; None if one does."""
    line = BatchInterpolation(first, second, 2 * second - first)
    for x, y in zip(a.instrs, b.instrs, strict=False):
        try:
            line.interpolate(x, y)
        except NotAffine as e:
            return _nonaffine_error(f"{x.label}: {e}", x, first, second)
        if x.work != y.work and _has_two_batch_extents(x, y, a, b):
            return _nonaffine_error(
                f"{x.label}: its work grows with the square of the batch", x, first, second, SuperlinearWork
            )
    if len(a.instrs) != len(b.instrs):
        return _nonaffine_error(f"{len(a.instrs)} and {len(b.instrs)} kernels", None, first, second)
    try:
        # What is left beside the instructions.
        line.interpolate(replace(a, instrs=()), replace(b, instrs=()))
    except NotAffine as e:
        return _nonaffine_error(str(e), None, first, second)
    return None


def _has_two_batch_extents(x: Instr, y: Instr, a: Program, b: Program) -> bool:
    """Whether two extents of one operand follow the batch: a straight line is not the law of their product."""
    pairs: list[tuple[Type, Type]] = [
        (a.buffers[i].type, b.buffers[j].type)
        for i, j in zip((*x.reads, *x.writes), (*y.reads, *y.writes), strict=True)
    ]
    return any(sum(m != n for m, n in zip(s.shape, t.shape, strict=True)) > 1 for s, t in pairs)


def _nonaffine_error(
    what: str, instr: Instr | None, first: int, second: int, kind: type[CompileError] = CompileError
) -> CompileError:
    return kind(
        f"the program does not follow the batch: with {first} and {second} samples it has {what}",
        where=instr.where if instr is not None else None,
        hint="Take the batch from the data (x.shape[0]) instead of fixing it; the script's own batch can be planned.",
    )
