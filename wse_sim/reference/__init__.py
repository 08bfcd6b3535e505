"""The NumPy reference of phase programs: what they do to the memories of the PEs."""
