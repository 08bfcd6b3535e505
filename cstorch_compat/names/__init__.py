"""The public names of the emulated packages: which exist, under which spelling, and in which release.

`shim` is the import hook. It serves `mirror_modules`, which are built from the table in `mirror_table`. `releases` is
the history of the Cerebras API, and `manifest` explains names that do not exist here.
"""
