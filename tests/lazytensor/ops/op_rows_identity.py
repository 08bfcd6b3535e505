"""Rows of the table test for identities: a node whose gradient is a Python function, and a value written over."""

from tests.lazytensor.ops.op_rows import Row

ROWS = {
    # Without a function the gradient passes.
    "custom_vjp": Row(lambda d: ([d.values()], {"uid": 1}), lambda x, uid: x),
    "clone": Row(lambda d: ([d.values()], {}), lambda x: x, "fib"),
    "overwritten": Row(lambda d: ([d.values(), d.values()], {}), lambda value, x: value, "fi"),
}
