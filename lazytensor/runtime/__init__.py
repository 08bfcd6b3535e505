"""Execution: the backend protocol, the host backend, the reference interpreter, the kernel cache."""
