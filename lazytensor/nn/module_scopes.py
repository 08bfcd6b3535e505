"""Names of modules in graphs: the scope that each call of a module adds to the path."""

from lazytensor.nn.module import Module


def name_scopes(module: Module, root: str) -> None:
    """Set the scope of `module` and its submodules, so that recorded operations contain their paths.

    `root` is the scope of `module`. A container without `forward`, such as ModuleList, is never called, so its name is
    put before those of its members, as in "layers.0".
    """
    parts = dict(module.named_modules())
    for path, part in parts.items():
        outer, _, name = path.rpartition(".")
        # A ModuleList has no `forward` and is never called, so its name becomes part of its members' scopes.
        while outer and type(parts[outer]).forward is Module.forward:
            outer, _, piece = outer.rpartition(".")
            name = f"{piece}.{name}"
        part.__dict__["_scope"] = name or root
