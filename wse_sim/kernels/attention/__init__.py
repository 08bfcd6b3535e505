"""Attention in two implementations, with memory that grows with the number of tokens and not with its square.

`ring.py` has the kernels `attention` and `attention_gradient`: keys and values shift around a ring of PEs. The other
files implement the attention block of a compiled program, with any mask, dropout and order of steps. `block.py` is the
block as data, `tiles.py` its kernel on teams of PEs, and `teams.py` the choice of teams and the call.
"""
