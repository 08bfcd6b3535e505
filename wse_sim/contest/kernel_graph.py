"""Read problems of the ISPD-2020 contest: kernel graphs in its text format.

The parser is strict, because an ignored field would only show in a score. Source: the contest's public problems.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from lazytensor.errors import DataError
from wse_sim.contest.contest_kernels import ContestKernel, Conv, cblock, dblock

MAX_MESH_SIDE = 1 << 12
"""Maximum side of a mesh in PEs: six times the contest's."""
HEADER_FIELDS = ("width", "height", "wdeltat", "wlength", "wadapter", "memlimit")
_KERNEL_FIELDS = {"conv": tuple("WHRSCKTU"), "cblock": ("f", "h", "w"), "dblock": ("f", "h", "w")}
_TERMINAL_KINDS = ("input", "output")
# `conv[3] H=16 W=16 ... name='c3'`, and `conv[3]:y -> conv[4]:x, shape:[16][16][64]`.
_NODE_PATTERN = re.compile(r"(\w+)\[\s*(\d+)\s*\]\s*(.*)$")
_EDGE_PATTERN = re.compile(
    r"(\w+)\[\s*(\d+)\s*\]:\w+\s*->\s*(\w+)\[\s*(\d+)\s*\]:\w+\s*(?:,\s*shape:((?:\[\s*\d+\s*\])+))?$"
)
_FIELD_PATTERN = re.compile(r"(\w+)\s*=\s*('[^']*'|\[[^\]]*\]|\S+)\s*")


@dataclass(frozen=True)
class ContestProblem:
    """A problem of the contest.

    - `name`: its name
    - `width`, `height`: the mesh in PEs
    - `time_weight`, `wire_weight`, `adapter_weight`: weights of the score
    - `memory_limit`: words on a PE
    - `kernels`: the kernels
    - `edges`: connected pairs of indices in `kernels`; connections to inputs and outputs are left out, as these have no
      position
    """

    name: str
    width: int
    height: int
    time_weight: float
    wire_weight: float
    adapter_weight: float
    memory_limit: int
    kernels: tuple[ContestKernel, ...]
    edges: tuple[tuple[int, int], ...]


def read_problem(path: Path) -> ContestProblem:
    """Return the problem in a UTF-8 file. Raise DataError with line and reason if it is invalid or cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"cannot read {path}: {error}", hint="Pass a .kgraph file in the format of the contest."
        ) from error
    return parse_problem(text, str(path))


def parse_problem(text: str, path: str = "the problem") -> ContestProblem:
    """Return the problem in a text. Raise DataError with line and reason if it is invalid.

    `path` names the text in errors.
    """
    return _KernelGraphParser(path).problem(text)


class _KernelGraphParser:
    """A parser that reads a file line by line. `line` is the current line number, used in errors."""

    def __init__(self, path: str):
        self.path, self.line = path, 0
        self.header: dict[str, tuple[str, int]] = {}
        self.nodes: dict[int, str] = {}
        self.kernels: dict[int, ContestKernel] = {}
        self.edges: list[tuple[int, int]] = []

    def problem(self, text: str) -> ContestProblem:
        """Return the problem in `text`. A parser can be used once.

        Comments are between (* and *) and contain the header. Raise DataError with the line for any other error of the
        format.
        """
        in_comment = False
        for self.line, raw in enumerate(text.splitlines(), start=1):
            line = raw.strip()
            if in_comment or line.startswith("(*"):
                in_comment = not line.endswith("*)")
                self._comment(line)
            elif "->" in line:
                self._edge(line)
            elif line:
                self._node(line)
        if in_comment:
            raise self._fault("a comment that begins with (* has no end", "Close it with *).")
        return self._whole()

    def _comment(self, line: str) -> None:
        """Read a `name=value` line of the header, which is inside a comment. The first value of a name counts.

        A line without "=" is ignored.
        """
        name, equals, value = line.strip("(*) ").partition("=")
        if equals:
            self.header.setdefault(name.strip(), (value.strip(), self.line))

    def _whole(self) -> ContestProblem:
        """Return the problem after all lines have been read. Edges to inputs and outputs are left out.

        Raise DataError if header fields are missing or invalid, or if there is no kernel.
        """
        self.line = 0
        missing = [name for name in HEADER_FIELDS if name not in self.header]
        if missing:
            raise self._fault(f"the header has no {', '.join(missing)}", "Write name=value lines between (* and *).")
        if not self.kernels:
            raise self._fault("the file has no kernel", "Write conv, cblock or dblock lines.")
        # Node numbers include inputs and outputs and have gaps. Convert them to indices of kernels.
        position = {number: n for n, number in enumerate(self.kernels)}
        edges = ((position[a], position[b]) for a, b in self.edges if a in position and b in position)
        return ContestProblem(
            name=self.header.get("test", ("", 0))[0],
            width=self._size("width"),
            height=self._size("height"),
            time_weight=self._weight("wdeltat"),
            wire_weight=self._weight("wlength"),
            adapter_weight=self._weight("wadapter"),
            memory_limit=self._size("memlimit"),
            kernels=tuple(self.kernels.values()),
            edges=tuple(edges),
        )

    def _size(self, name: str) -> int:
        """Return a positive integer of the header, which has the field `name`.

        Raise DataError if the text is no such number, or if a side of the mesh exceeds MAX_MESH_SIDE. Sets `line` to
        that of the field.
        """
        text, self.line = self.header[name]
        if not text.isdigit() or int(text) < 1:
            raise self._fault(f"{name}={text} in the header is invalid", "Use an integer of at least 1.")
        if name in ("width", "height") and int(text) > MAX_MESH_SIDE:
            raise self._fault(
                f"{name}={text} in the header is too large", f"Use at most {MAX_MESH_SIDE:,} PEs on a side."
            )
        return int(text)

    def _weight(self, name: str) -> float:
        """Return the header field `name` as a number that is not negative.

        Raise DataError for any other text, also for exponents. Sets `line` to that of the field.
        """
        text, self.line = self.header[name]
        if not re.fullmatch(r"\d+(\.\d*)?", text):
            raise self._fault(f"{name}={text} in the header is invalid", "Use a number that is not negative.")
        return float(text)

    def _node(self, line: str) -> None:
        """Add the kernel, input or output of a line. A kernel without a name is called "k" and its number.

        Raise DataError if the line is invalid or its number repeats.
        """
        match = _NODE_PATTERN.match(line)
        if match is None or match[1] not in (*_KERNEL_FIELDS, *_TERMINAL_KINDS):
            kinds = ", ".join((*_KERNEL_FIELDS, *_TERMINAL_KINDS))
            raise self._fault(f"{line!r} is neither a node nor an edge", f"Begin a node with one of {kinds}.")
        kind, number, rest = match[1], int(match[2]), match[3]
        if number in self.nodes:
            raise self._fault(f"a second node has the number {number}", "Number each node once.")
        fields = self._fields(rest)
        self.nodes[number] = kind
        if kind in _KERNEL_FIELDS:
            name = fields.get("name", "").strip("'") or f"k{number}"
            self.kernels[number] = self._kernel(kind, name, fields)

    def _fields(self, text: str) -> dict[str, str]:
        """Return the `name=value` fields in a text. The last value of a name counts.

        Raise DataError for any other text.
        """
        fields, at = {}, 0
        while at < len(text):
            match = _FIELD_PATTERN.match(text, at)
            if match is None:
                raise self._fault(f"{text[at:]!r} is not a field", "Write name=value.")
            fields[match[1]], at = match[2], match.end()
        return fields

    def _kernel(self, kind: str, name: str, fields: dict[str, str]) -> ContestKernel:
        """Return the kernel of a kind ("conv", "cblock" or "dblock") with these fields; others are ignored.

        Raise DataError if a field is missing or no positive integer, if two strides differ, or if the features of a
        block are no multiple of 4.
        """
        numbers: dict[str, int] = {}
        for field in _KERNEL_FIELDS[kind]:
            text = fields.get(field, "missing")
            if not text.isdigit() or int(text) < 1:
                raise self._fault(f"{field} of {kind} {name} is {text}", "Use an integer of at least 1.")
            numbers[field] = int(text)
        if kind == "conv":
            # T and U are the vertical and horizontal strides. The contest's formula divides by one of them, squared.
            if numbers["T"] != numbers["U"]:
                raise self._fault(
                    f"{name} has different strides {numbers['T']} and {numbers['U']}", "Use equal strides."
                )
            return ContestKernel(name, kind, (Conv(**{field: numbers[field] for field in "HWRSCKT"}),))
        # The inner convolutions of a block have a quarter of its features.
        if numbers["f"] % 4:
            raise self._fault(f"f of {kind} {name} is {numbers['f']}", "Use a multiple of 4 features.")
        block = cblock if kind == "cblock" else dblock
        return ContestKernel(name, kind, block(numbers["h"], numbers["w"], numbers["f"]))

    def _edge(self, line: str) -> None:
        """Add the edge of a line to `edges`, as a pair of node numbers.

        Raise DataError if the line is invalid or an end is not defined before with this kind.
        """
        match = _EDGE_PATTERN.match(line)
        if match is None:
            raise self._fault(f"{line!r} is not an edge", "Write kind[n]:y -> kind[m]:x, shape:[h][w][c].")
        ends = ((match[1], int(match[2])), (match[3], int(match[4])))
        for kind, number in ends:
            if self.nodes.get(number) != kind:
                is_there = (
                    f"node {number} is a {self.nodes[number]}" if number in self.nodes else "this node does not exist"
                )
                raise self._fault(f"an edge has the end {kind}[{number}], but {is_there}", "Define nodes before edges.")
        self.edges.append((ends[0][1], ends[1][1]))

    def _fault(self, what: str, hint: str) -> DataError:
        """Return an error at the current line."""
        return DataError(what, where=f"{self.path}:{self.line}" if self.line else self.path, hint=hint)
