"""Metrics: state on the device that is updated in each step and read at the end."""
