"""The methods of Tensor that are functions of `lazytensor.functional`, which attaches them when it is imported.

They need tensors, so they cannot stand in Tensor's file. What an editor and a type checker see of them is the stub
beside this file, written from the functions' signatures by `python -m tests.method_stub`.
"""


class Methods:
    """Empty at run time: the functions are attached to Tensor itself."""

    __slots__ = ()
