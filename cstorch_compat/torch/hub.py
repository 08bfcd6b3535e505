"""`torch.hub` without a network: models from a folder, and weights that are in the cache already."""

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
from lazytensor.errors import DataError

_hub_folder: RunLocal[str | None] = RunLocal(lambda: None)
HASH_PATTERN = re.compile(r"-([a-f0-9]*)\.")


def get_dir() -> str:
    """The folder of the cache: the one that was set, or $TORCH_HOME/hub, by default ~/.cache/torch/hub."""
    if _hub_folder.value is not None:
        return _hub_folder.value
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))
    return os.path.join(home, "hub")


def set_dir(d: Any) -> None:
    """Set the folder of the cache."""
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
    """What the cache has of a file; raises DataError if it has none, for nothing is ever downloaded."""
    folder = pathlib.Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    # Under the name that PyTorch itself would give the download.
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.is_file():
        raise DataError(
            f"{url} is not in the cache, and nothing is ever downloaded here",
            where=source.where(),
            hint=f"Put the file at {path}.",
        )
    return save_and_load.load(path, map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> NoReturn:
    """Raises DataError: nothing is ever downloaded."""
    raise DataError(
        f"{url} would be downloaded, and nothing ever is here", where=source.where(), hint=f"Put the file at {dst}."
    )


def _import_hubconf(repo_or_dir: str, origin: str) -> Any:
    if origin != "local":
        raise DataError(
            f"the repository {repo_or_dir!r} would be downloaded, and nothing ever is here",
            where=source.where(),
            hint='Clone it and call torch.hub with the folder and source="local".',
        )
    path = os.path.join(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise DataError(f"there is no {path}", where=source.where(), hint="Name the folder that has hubconf.py.")
    # As in PyTorch: the user's own file, which may import what lies beside it.
    sys.path.insert(0, repo_or_dir)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    return module


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call an entry point of the hubconf.py in a folder. Raises DataError for what is not there."""
    # Settings of the download, of which there is none.
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _get_entry_point(_import_hubconf(str(repo_or_dir), source), model)(*args, **kwargs)


def _get_entry_point(module: Any, model: str) -> Any:
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def list(github: Any, *args: Any, source: str = "local", **kwargs: Any) -> Any:
    """The entry points of the hubconf.py in a folder."""
    module = _import_hubconf(str(github), source)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(github: Any, model: str, *args: Any, source: str = "local", **kwargs: Any) -> Any:
    """What an entry point says of itself."""
    return _get_entry_point(_import_hubconf(str(github), source), model).__doc__
