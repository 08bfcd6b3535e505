"""A whole pipeline on simulated cores: each layer in its rectangle, and samples that flow through routes between them.

`chain` reads a compiled step as linear layers with what happens between them, `seats` gives each layer its cores,
`wires` colours for its routes, `lower` writes the programs of all cores, and `step_run` loads them, runs one simulation
of a whole step and reads back what it left.
"""
