"""Sweeps: many plans, over any executor, kept in a file while they come."""
