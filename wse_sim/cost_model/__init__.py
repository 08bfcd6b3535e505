"""Cycles by closed forms: of moves over the fabric, of work on cores, and of whole phase programs."""
