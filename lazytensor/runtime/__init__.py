"""Run programs: the backend protocol, the host backend, the NumPy reference interpreter and the kernel cache."""
