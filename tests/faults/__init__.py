"""Faults at every place of a small run: `python -m tests.faults`; the suite takes a share of the places."""
