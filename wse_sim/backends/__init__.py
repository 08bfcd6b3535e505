"""Backends of the simulator: a report of the wafer, and simulated cores that run a step."""
