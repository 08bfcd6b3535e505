"""Counts the nodes of graphs that are held, for tests of loops that must not grow."""

import gc

from lazytensor.ir.graph import Node


def live_nodes() -> int:
    """Return the number of nodes that are alive once the collector finds nothing more."""
    while gc.collect():
        pass
    return sum(type(thing) is Node for thing in gc.get_objects())
