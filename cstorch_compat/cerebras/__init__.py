"""An emulation of the `cerebras` package as of release 2.10.

`cstorch_compat.generations` adds the API of older releases.
"""
