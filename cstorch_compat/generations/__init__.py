"""The API of older releases of `cerebras.pytorch`: `cbtorch` for 1.2 to 1.8, and `early` for 1.8 to 2.3.

The current API is in `cstorch_compat.cerebras`.
"""
