"""Function: the lines of one function of LLVM while it is written, and the names that a text knows in it."""

from lazytensor.native.kinds import BOOL, Array, Kind, Unknown, Value, conversion


class Function:
    """Collects instructions in blocks; what is declared stands outside, places on the stack at the beginning."""

    def __init__(self) -> None:
        self.declarations: set[str] = set()
        self._lines: list[str] = []
        self._places: list[str] = []
        self._count = self._loops = 0
        self.notes = ['!0 = !{!"llvm.loop.unroll.disable"}']

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

    def labels(self, *names: str) -> list[str]:
        """New labels of blocks."""
        return [self._name(name) for name in names]

    def begin(self, label: str) -> None:
        """What follows is the block of this label."""
        self._lines.append(f"{label}:")

    def kept_a_loop(self) -> str:
        """The mark of a jump that ends a loop: LLVM must not write its steps out."""
        self._loops += 1
        # A loop's mark begins with itself, so that no two are the same.
        self.notes.append(f"!{self._loops} = distinct !{{!{self._loops}, !0}}")
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

    def module(self, name: str) -> str:
        """The whole text."""
        body = "\n".join(self._lines)
        declared = "\n".join(sorted(self.declarations))
        places = "\n".join(self._places)
        notes = "\n".join(self.notes)
        return f"{declared}\ndefine void @{name}(ptr %table) {{\nentry:\n{places}\n{body}\n}}\n{notes}\n"

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


class Scope:
    """The names of one text or function body, and the module in which others are looked up."""

    def __init__(self, function: Function, module: str, text: str = ""):
        self.function, self.module, self.text = function, module, text
        self.names: dict[str, Array | tuple[Kind, str]] = {}

    def store(self, name: str, value: Value) -> None:
        """Give a name its number; the kind is that of the first one."""
        known = self.names.get(name)
        if isinstance(known, Array):
            raise Unknown(f"{name} is an array")
        if known is None:
            known = self.names[name] = (value.kind, self.function.place(value.kind))
        elif known[0] is not value.kind:
            raise Unknown(f"{name} is {known[0].name} and {value.kind.name}")
        self.function.line(f"store {value.kind.llvm} {value.text}, ptr {known[1]}")
