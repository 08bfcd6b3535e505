"""Base class for the methods of Tensor that are functions of `lazytensor.functional`.

`lazytensor.functional` attaches them when it is imported. The stub file next to this one declares them for editors and
type checkers; `python -m tests.method_stub` generates it from the functions' signatures.
"""


class Methods:
    """Empty at run time: the functions are attached to Tensor itself."""

    __slots__ = ()
