"""A whole pipeline on simulated cores: each layer in its rectangle, and samples that flow through routes between them.

`layer_chain` reads a compiled step as linear layers with what happens between them, `layer_region` gives each layer
its cores, `route_colours` colours for its routes, `lowering` writes the programs of all cores, and `step_run` loads
them, runs one simulation of a whole step and reads back what it left.
"""
