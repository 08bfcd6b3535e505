"""Kernels for any shape in the kernel language. `jit.load` compiles each once for all shapes, from its text.

The module of a routine defines `kernel(phase, part, geometry, shared, own, *ins, *outs)` over flat arrays. Parts of a
phase may run at the same time. `shared` is a scratch buffer for all of them, `own` one for the thread. `scheduler`,
`row_blocks` and `batched_matmul` have other signatures. `image_layout` and `recurrent_parts` hold shared helpers.
"""
