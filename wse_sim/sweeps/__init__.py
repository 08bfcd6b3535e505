"""Sweeps: plan many combinations of programs and machines, with any executor, and record the results in a file."""
