"""Measurements of a run: rates, progress, time spans and traces."""
