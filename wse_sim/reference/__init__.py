"""Phase programs read as data: what they do to the memories of the PEs, with NumPy."""
