"""The API of `torch.hub` without network access: models from local folders, and weights from the local cache."""

import importlib.util
import os
import pathlib
import re
import sys
from typing import Any, NoReturn
from urllib.parse import urlparse

from cstorch_compat.run.process import RunLocal
from cstorch_compat.torch.serialization import save_and_load
from lazytensor.core import source
from lazytensor.errors import DataError, ShapeError

_hub_folder: RunLocal[str | None] = RunLocal(lambda: None)
"""The folder given to `set_dir`, or None."""
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The pattern of the hash in a file name."""
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, ENV_GITHUB_TOKEN = "TORCH_HOME", "XDG_CACHE_HOME", "GITHUB_TOKEN"
"""Names of environment variables: the folder of PyTorch's files, that of all caches, and a token for downloads."""
DEFAULT_CACHE_DIR = "~/.cache"
"""The folder of all caches if no environment variable names one."""
MODULE_HUBCONF, VAR_DEPENDENCY = "hubconf.py", "dependencies"
"""The file with the entry points of a folder, and the name in it that lists required packages."""
READ_DATA_CHUNK = 128 * 1024
"""The size of a read of a download, in bytes."""


def get_dir() -> str:
    """Return the cache folder: the one that was set, or else $TORCH_HOME/hub.

    Without TORCH_HOME it is $XDG_CACHE_HOME/torch/hub, by default ~/.cache/torch/hub. The folder need not exist.
    """
    return _hub_folder.value if _hub_folder.value is not None else os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """Return the folder of PyTorch's files: $TORCH_HOME, or else "torch" in the folder of caches."""
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def set_dir(d: Any) -> None:
    """Set the cache folder. "~" is expanded."""
    _hub_folder.value = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Return the contents of a cached file. Raises DataError if it is not in the cache, because nothing is downloaded.

    The file is `file_name`, or the last part of `url`, in `model_dir`, or in "checkpoints" of the cache folder.
    `map_location` and `weights_only` are those of `torch.load`; `progress` and `check_hash` have no effect.
    """
    folder = pathlib.Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.is_file():
        raise DataError(
            f"{url} is not in the cache, and this package does not download files",
            where=source.where(),
            hint=f"Put the file at {path}.",
        )
    return save_and_load.load(path, map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> NoReturn:
    """Raise DataError, because nothing is downloaded."""
    raise DataError(
        f"{url} cannot be downloaded, because this package does not download files",
        where=source.where(),
        hint=f"Put the file at {dst}.",
    )


def _import_hubconf(repo_or_dir: str, origin: str) -> Any:
    """Execute hubconf.py of a folder, and return it as a module.

    The folder is on `sys.path` meanwhile. Raises DataError if `origin` is not "local" or the file is missing.
    """
    if origin != "local":
        raise DataError(
            f"the repository {repo_or_dir!r} cannot be downloaded, because this package does not download files",
            where=source.where(),
            hint='Clone it and call torch.hub with the folder and source="local".',
        )
    path = os.path.join(repo_or_dir, MODULE_HUBCONF)
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise DataError(
            f"{path} does not exist", where=source.where(), hint="Pass the folder that contains hubconf.py."
        )
    # As in PyTorch, hubconf.py may import other modules of its folder.
    sys.path.insert(0, repo_or_dir)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    return module


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Execute hubconf.py in a folder, call its entry point `model` with the arguments, and return the result.

    `source` must be "local". Options that concern downloads are ignored. Raises DataError for another source or if the
    file is missing, and RuntimeError if it has no such entry point.
    """
    # These options concern downloads, which do not exist.
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _get_entry_point(_import_hubconf(str(repo_or_dir), source), model)(*args, **kwargs)


def _get_entry_point(module: Any, model: str) -> Any:
    function = getattr(module, model, None)
    if not callable(function):
        raise ShapeError(
            f"Cannot find callable {model} in hubconf",
            where=source.where(),
            hint="Pass the name of a function in hubconf.py.",
        )
    return function


def list(github: Any, *args: Any, source: str = "local", **kwargs: Any) -> Any:
    """Return the names of the entry points in hubconf.py of a folder: its public callables, in alphabetical order.

    The file is executed. Raises DataError if `source` is not "local" or the file is missing.
    """
    module = _import_hubconf(str(github), source)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github: Any, model: str, *args: Any, source: str = "local", **kwargs: Any) -> Any:
    """Return the docstring of the entry point `model` in hubconf.py of a folder."""
    return _get_entry_point(_import_hubconf(str(github), source), model).__doc__
