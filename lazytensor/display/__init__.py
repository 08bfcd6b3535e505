"""Presentation of values: tables, printed tensors, and HTML for notebooks."""
