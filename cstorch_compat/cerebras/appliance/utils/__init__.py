"""Utilities of `cerebras.appliance.utils`."""
