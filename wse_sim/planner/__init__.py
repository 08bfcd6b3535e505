"""Plans a compiled program on the wafer: data-flow facts, layers, floorplan, routes, timelines and the report."""
