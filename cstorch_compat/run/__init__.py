"""A run: one backend, the executions of its loops, what waits for the end of a step, and its settings."""
