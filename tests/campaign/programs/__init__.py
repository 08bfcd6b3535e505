"""Random PyTorch programs: `python -m tests.campaign programs N SEED [--real PYTHON]`.

`state` holds the variables of a program that is being drawn, `statements` and `training` draw its statements,
`runner` runs programs in a process of one package, and `campaign` compares the results and shrinks what differs.
"""
