"""Compiler passes, one per file: a graph becomes kernel calls and loop nests, and these become an ordered program."""
