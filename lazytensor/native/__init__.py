"""Machine code for the texts of kernels, without Numba: a text becomes LLVM's, and LLVM does the rest.

Numba spends most of its time on finding out what a text means in general. Generated loops are a small language in which
every name has one type and nothing is an object: `emit` says in a few hundred lines what that is in LLVM. What it
does not know raises `Unknown`, and Numba compiles the text.
"""
