"""The compiler of the kernel language: a function in a subset of Python becomes LLVM's text, and LLVM does the rest.

In this subset every name has one type and nothing is an object: `emit` says in a few hundred lines what that is in
LLVM. What it does not have raises `Unknown`. lazytensor/README.md, section "Kernel language", describes it.
"""
