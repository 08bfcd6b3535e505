"""Add the course's scripts to the packages; `pyproject.toml` has everything else."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["lazytensor*", "wse_sim*", "cstorch_compat*"]),
        "cstorch_compat.scripts",
        "cstorch_compat.scripts.published",
    ],
    package_dir={"cstorch_compat.scripts": "notebooks/scripts"},
)
