"""An example of a file of rows, which `lazywafer validate --example` prints."""

EXAMPLE_TEXT = """{"rows": [
 {"id": "my reduction", "kernel": "line_reduction", "machine": "wse2",
  "params": {"pes": 256, "words": 1024}, "value": 2650, "unit": "cycles",
  "source": "my run of 3 March, simulator", "tolerance": 0.05},
 {"id": "my stencil", "kernel": "tiled_star", "machine": "CS-2",
  "params": {"tile": [16, 12], "radius": 2}, "value": null, "unit": "cycles/iteration"},
 {"id": "another core", "kernel": "", "machine": "wse2", "value": 12, "unit": "pJ",
  "note": "energy is not modelled"}
]}"""
"""A file with a row that is compared, a row that is only predicted, and a row without a kernel."""
