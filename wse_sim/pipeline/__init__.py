"""A whole pipeline on simulated cores: each layer has a rectangle, and samples flow over routes between them.

`layer_chain` converts a compiled step into a chain of linear layers with elementwise work in between. `layer_region`
gives each layer its cores, and `route_colours` gives each route a colour. `lowering` writes the programs of all cores.
`step_run` loads them, simulates a whole step, and reads the results back.
"""
