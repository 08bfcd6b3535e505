"""Serving of decoder-only models whose weights and key-value caches are in the memories of the PEs."""
