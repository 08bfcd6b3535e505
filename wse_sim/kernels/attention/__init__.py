"""Attention in two ways, whose memory grows with the tokens and not with their square.

`ring.py` has the kernels `attention` and `attention_gradient` of the library: keys and values go around a ring of PEs.
The other files have the block of a compiled program, with any mask, dropout and order of steps: `block.py` is the block
as data, `tiles.py` its kernel on teams of PEs, `teams.py` the choice of the teams and the call.
"""
