"""Programs of one step for every batch size, interpolated from two recorded programs.

All numbers of a program that depend on the batch size, such as dimensions, strides and work, are affine functions of
it. Two programs of the same step with different batch sizes therefore determine those of all other sizes.
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
"""Multiples of the first batch size that are recorded until two programs have the same form."""
CONSTANT_TOLERANCE = 1e-6
"""Relative tolerance for constants that depend on the batch size, because float32 rounds them."""


def _identity(x: float) -> float:
    return x


def _reciprocal(x: float) -> float:
    return 1 / x


def _bessel_correction(x: float) -> float:
    return x / (x - 1)


BATCH_SCALING_LAWS = ((_identity, _identity), (_reciprocal, _reciprocal), (_bessel_correction, _bessel_correction))
"""How a constant may depend on the number n of samples: n for a sum, 1 / n for a mean, n / (n - 1) for a variance.

Each entry is (constant to samples, samples to constant).
"""


INDEX_MEMBERS: Mapping[type, tuple[str, ...]] = {
    Instr: ("reads", "writes"),
    Program: ("state", "batch", "fetches"),
    ProgramBuffer: ("index",),
    Scalar: ("args",),
    NestStore: ("output", "value"),
}
"""Fields that are indices of other records, and therefore must not depend on the batch size."""


class SuperlinearWork(CompileError):
    """The work of a step grows faster than its batch size."""


class NotAffine(Exception):
    """Two records differ in something that is not an affine function of the batch size; the message says in what."""


@dataclass(frozen=True)
class BatchInterpolation:
    """Linear interpolation, or extrapolation, of programs from the batch sizes `first` and `second` to `at`."""

    first: int
    second: int
    at: int
    _nests: dict[tuple[int, int], Nest] = field(default_factory=dict, repr=False, compare=False)
    _types: dict[tuple[Type, Type], Type] = field(default_factory=dict, repr=False, compare=False)

    def interpolate(self, a: Any, b: Any) -> Any:
        """Return the record at batch size `at`, given `a` at `first` and `b` at `second`.

        Integers lie on a line through both values; floats that differ follow `BATCH_SCALING_LAWS`; anything else must
        be equal. Records, mappings and sequences are interpolated member by member, and `a` itself is returned if
        nothing differs. Locations are taken from `a`. Constant arrays that differ become None. Raises NotAffine if that
        is not possible.
        """
        kind = a.__class__
        # Locations may differ, because an interned node has that of its first recording.
        if a is b or kind is Where:
            return a
        if kind is not b.__class__:
            raise NotAffine(f"{_shorten(a)} and {_shorten(b)}")
        if kind in INTERPOLATORS:
            return INTERPOLATORS[kind](self, a, b)
        if kind in _member_names_by_type or is_dataclass(kind):
            return self._record(a, b)
        if kind is np.ndarray:
            # The data of a constant that depends on the batch size is unknown for other sizes.
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
        # Reuse unchanged records, because most do not depend on the batch size.
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
        # Fast path, because a program is mostly instructions: interpolate only the fields that may depend on the batch.
        if (a.kernel, a.reads, a.writes, a.direction) != (b.kernel, b.reads, b.writes, b.direction):
            return cast(Instr, self._record(a, b))
        attrs, nest = self.interpolate(a.attrs, b.attrs), self.interpolate(a.nest, b.nest)
        work = a.work if a.work == b.work else self.interpolate(a.work, b.work)
        if work is a.work and nest is a.nest and attrs is a.attrs:
            return a
        return replace(a, attrs=attrs, nest=nest, work=work)

    def _nest(self, a: Nest, b: Nest) -> Nest:
        # Cached, because equal layers share their nests.
        if (id(a), id(b)) not in self._nests:
            self._nests[id(a), id(b)] = self._record(a, b)
        return self._nests[id(a), id(b)]

    def _record(self, a: Any, b: Any) -> Any:
        """Interpolate a dataclass field by field; return `a` itself if no field differs.

        Raises NotAffine for indices of buffers (`INDEX_MEMBERS`) that differ, and as `interpolate` does.
        """
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
        """Interpolate an integer. Raises NotAffine if the result is not an integer."""
        if a == b:
            return a
        rise, rest = divmod((b - a) * (self.at - self.first), self.second - self.first)
        if rest:
            raise NotAffine(f"{a} and {b}, which give no integer for {self.at} samples")
        return a + rise

    def _number(self, a: float, b: float) -> float:
        """Interpolate a float constant by the first of `BATCH_SCALING_LAWS` that fits, within CONSTANT_TOLERANCE.

        Raises NotAffine if none does.
        """
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
"""Special interpolation functions for types that occur often."""
_member_names_by_type: dict[type, tuple[str, ...]] = {}


def _member_names(kind: Any) -> tuple[str, ...]:
    """Return the field names of a dataclass; cached, because a program has up to a hundred thousand records."""
    if kind not in _member_names_by_type:
        _member_names_by_type[kind] = tuple(f.name for f in fields(kind) if f.init)
    return _member_names_by_type[kind]


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{type(value).__name__} ..."


@dataclass(frozen=True)
class _FailedRecording:
    """A record function that raises `error`, for a recording that failed or is not possible in this process."""

    error: LazyError

    def __call__(self, size: int) -> Program:
        raise self.error


@dataclass
class StepFamily:
    """The programs of a step for all batch sizes: `program(n)` returns the one for n samples.

    `first` is the program for the recorded batch size `batch_size`. `record(n)` records the step for another batch
    size; it is called up to three times, when a program for another size is first requested.
    """

    batch_size: int
    first: Program
    record: Callable[[int], Program] = field(repr=False)
    _ends: dict[int, Program] = field(default_factory=dict, repr=False)

    def program(self, batch_size: int | None = None) -> Program:
        """Return the program for a batch of `batch_size` samples; the default is the recorded batch size.

        The first request for another size records the step for one to three other sizes. Programs for all further sizes
        are interpolated from the last two recorded ones. Raises CompileError for a size below 1, and, with the user's
        line, if the script fixes its batch size or if the program is no affine function of it.
        """
        if batch_size in (None, self.batch_size):
            return self.first
        assert batch_size is not None
        if batch_size < 1:
            raise CompileError(
                f"the batch size is {batch_size}, but must be at least 1", hint="Use a batch size of at least 1."
            )
        ends = self._record_two_batches()
        if batch_size in ends:
            return ends[batch_size]
        (first, a), (second, b) = list(ends.items())[-2:]
        return _interpolate_program(BatchInterpolation(first, second, batch_size), a, b)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, after recording two batch sizes: the other process cannot run the script.

        An error of that recording is raised there when another batch size is requested.
        """
        try:
            self._record_two_batches()
            record = _FailedRecording(CompileError("a step from another process cannot be recorded again"))
        except LazyError as e:
            record = _FailedRecording(e)
        except Exception as e:
            # The exception may have a class of the script that the other process cannot import.
            record = _FailedRecording(
                CompileError(f"the step cannot be recorded for another batch: {type(e).__name__}: {e}")
            )
        return {**vars(self), "record": record}

    def _record_two_batches(self) -> Mapping[int, Program]:
        """Return programs for at least two batch sizes, the last two of which have the same form. They are cached.

        The sizes are multiples of the recorded one (RECORDED_BATCH_MULTIPLES). Raises CompileError if no two successive
        programs have the same form, and SuperlinearWork as soon as the work grows faster than the batch.
        """
        if len(self._ends) > 1:
            return self._ends
        # A program for one sample has a special form, because dimensions of 1 are not loops.
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
            # A program may have another form because a dimension equals the batch size by chance.
            if len(ends) > 1 and difference is None:
                self._ends.update(ends)
                return self._ends
        assert difference is not None
        raise difference


def _interpolate_program(line: BatchInterpolation, a: Program, b: Program) -> Program:
    """Return the program at the batch size `line.at`. Raises CompileError if that is not possible."""
    try:
        return cast(Program, line.interpolate(a, b))
    except NotAffine as e:
        raise _nonaffine_error(str(e), None, line.first, line.second) from None


def find_nonaffine_difference(a: Program, b: Program, first: int, second: int) -> CompileError | None:
    """Return an error that says why two programs cannot be interpolated, with the user's line; None if they can.

    `a` is the program for `first` samples, `b` for `second`. The error is SuperlinearWork if an instruction whose work
    differs has an operand with two dimensions that depend on the batch size.
    """
    line = BatchInterpolation(first, second, 2 * second - first)
    for x, y in zip(a.instrs, b.instrs, strict=False):
        try:
            line.interpolate(x, y)
        except NotAffine as e:
            return _nonaffine_error(f"{x.label}: {e}", x, first, second)
        if x.work != y.work and _has_two_batch_extents(x, y, a, b):
            return _nonaffine_error(
                f"{x.label}: the work grows with the square of the batch size", x, first, second, SuperlinearWork
            )
    if len(a.instrs) != len(b.instrs):
        return _nonaffine_error(f"{len(a.instrs)} and {len(b.instrs)} kernels", None, first, second)
    try:
        # Everything except the instructions.
        line.interpolate(replace(a, instrs=()), replace(b, instrs=()))
    except NotAffine as e:
        return _nonaffine_error(str(e), None, first, second)
    return None


def _has_two_batch_extents(x: Instr, y: Instr, a: Program, b: Program) -> bool:
    """Return whether two dimensions of one operand depend on the batch size.

    The size of such an operand is not an affine function of the batch size.
    """
    pairs: list[tuple[Type, Type]] = [
        (a.buffers[i].type, b.buffers[j].type)
        for i, j in zip((*x.reads, *x.writes), (*y.reads, *y.writes), strict=True)
    ]
    return any(sum(m != n for m, n in zip(s.shape, t.shape, strict=True)) > 1 for s, t in pairs)


def _nonaffine_error(
    what: str, instr: Instr | None, first: int, second: int, kind: type[CompileError] = CompileError
) -> CompileError:
    return kind(
        f"the program is not a linear function of the batch size. With {first} and {second} samples: {what}",
        where=instr.where if instr is not None else None,
        hint=(
            "Read the batch size from the data (x.shape[0]) instead of fixing it, or plan the batch size of the script."
        ),
    )
