"""The state of a run: its backend, the sessions that execute its loops, step closures, and settings."""
