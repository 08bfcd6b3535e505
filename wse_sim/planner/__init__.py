"""A compiled program on the wafer: who feeds whom, places, modes, timelines and the report."""
