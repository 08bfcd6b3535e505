"""Backends: the wafer as a report, and simulated cores that run a step."""
