"""Damaged and hostile files for every reader: `make campaign N=100000 SEED=1`, or `python -m tests.campaign`.

A case is a number: with the seed it says which file is made, how it is changed and who reads it. Each runs in a process
of its own, with limits of time and memory and a hook that sees what it opens and starts.
"""
