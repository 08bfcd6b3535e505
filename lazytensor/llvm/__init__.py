"""Compiler of the kernel language: translate functions in a subset of Python to LLVM IR, and compile them with LLVM.

In this subset every name has one type and there are no objects. `emit` translates it, and raises `Unknown` for anything
else. The section "Kernel language" of lazytensor/README.md describes the language.
"""
