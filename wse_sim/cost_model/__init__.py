"""Cycle counts by closed forms, for moves over the fabric, for work on cores, and for whole phase programs."""
