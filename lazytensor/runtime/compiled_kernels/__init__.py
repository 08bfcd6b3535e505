"""Kernels for any shape in the kernel language: they are compiled once for all shapes, from their text, by `jit.load`.

The file of a routine defines `kernel(phase, part, geometry, shared, own, *ins, *outs)` over flat arrays. Parts of a
phase may run at the same time; `shared` is memory for all of them, `own` for the thread. `scheduler`, `row_blocks` and
`batched_matmul` have functions of their own form, and `image_layout` and `recurrent_parts` what several routines share.
"""
