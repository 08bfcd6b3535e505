"""Summaries of a run: numbers, texts, histograms and images in TensorBoard's event files, and tensors in HDF5 files.

The writers and the reader have the interfaces of `torch.utils.tensorboard` and `cerebras.pytorch.utils.tensorboard`.
"""

import importlib
import itertools
import pathlib
import socket
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from cstorch_compat.files import checkpoint
from cstorch_compat.files.tree import flatten
from cstorch_compat.run.process import RunLocal
from cstorch_compat.summaries import event_file, plugins, projector
from cstorch_compat.summaries.event_file import ScalarEvent, TextEvent
from cstorch_compat.summaries.png import to_pixels
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid, DataError, OptionInvalid, OptionMissing
from lazytensor.nn.module_scopes import name_scopes
from lazytensor.system.plain_files import open_plain_file


@dataclass(frozen=True)
class TensorDescriptor:
    """A logged tensor, with its step and the time in nanoseconds since the epoch."""

    step: int
    ns_since_epoch: int
    tensor: Tensor


def _to_array(values: Any) -> np.ndarray:
    """Return a tensor or array-like as a NumPy array."""
    return np.asarray(values.detach().array() if isinstance(values, Tensor) else values)


class EventWriter:
    """A writer of TensorBoard event files with the interface of PyTorch's SummaryWriter.

    `log_dir` defaults to a folder in "runs" with the time, the host name and `comment`; it is created. `purge_step`,
    `max_queue` and `flush_secs` have no effect: data is on disk after `flush` or `close`. Logging after `close` appends
    to the file.
    """

    _numbers = RunLocal(itertools.count)

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ):
        # The default name is PyTorch's.
        run_name = f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = str(log_dir or pathlib.Path("runs") / run_name)
        self._parts: dict[str, EventWriter] = {}
        folder = pathlib.Path(self.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        # The number distinguishes writers made in the same second. It also skips files of an earlier run in this
        # process.
        begin = f"{int(time.time())}.{socket.gethostname()}"
        tails = (f"{begin}.{number}{filename_suffix}" for number in self._numbers.value)
        self._tail = next(tail for tail in tails if not (folder / f"events.out.tfevents.{tail}").exists())
        self._path = folder / f"events.out.tfevents.{self._tail}"
        self._file = self._path.open("wb")
        self._log(event_file.FILE_VERSION_MESSAGE, 0, None)

    def _log(self, body: bytes, step: int | None, seconds: float | None) -> None:
        """Write an Event message. `step` None is 0, and `seconds` None is the current time.

        The file is opened again if it was closed. The data may stay in a buffer until `flush` or `close`.
        """
        at = time.time() if seconds is None else seconds
        # As in PyTorch, logging after `close` appends to the file.
        if self._file.closed:
            self._file = self._path.open("ab")
        self._file.write(event_file.encode_record(event_file.encode_event(at, int(step or 0), body)))

    def _get_file_writer(self) -> SimpleNamespace:
        """Return an object with the name of the event file, as PyTorch's private method does.

        The Model Zoo's logger uses it.
        """
        return SimpleNamespace(event_writer=SimpleNamespace(_file_name=self._file.name), get_logdir=self.get_logdir)

    def get_logdir(self) -> str:
        """Return the folder of the event file."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Log a number, in float32. `new_style` and `double_precision` have no effect."""
        self._log(event_file.encode_scalar_summary(tag, float(scalar_value)), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None, walltime: Any = None
    ) -> None:
        """Log several numbers that TensorBoard draws in one plot.

        Each is written to the subfolder MAIN_TAG_NAME of `log_dir`, under the tag `main_tag`.
        """
        for name, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{name}"
            # TensorBoard draws values with the same tag in several folders in one plot.
            if folder not in self._parts:
                self._parts[folder] = EventWriter(pathlib.Path(self.log_dir) / folder)
            self._parts[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: Any = None) -> None:
        """Log a text."""
        self._log(event_file.encode_text_summary(tag, text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: Any = None,
        max_bins: int | None = None,
    ) -> None:
        """Log a histogram of values. `bins` is "tensorflow" or the `bins` of `numpy.histogram_bin_edges`.

        Raises ValueError if there are no values or none is in a bin (all are NaN, for example), and OptionMissing for
        `max_bins`.
        """
        if max_bins is not None:
            raise OptionMissing("add_histogram does not support max_bins", where=source.where(), hint="Use bins.")
        # Use float64, because sums of squares lose digits in float32.
        array = np.asarray(_to_array(values), np.float64)
        if not array.size:
            raise OptionInvalid("The input has no element.", where=source.where(), hint="Pass at least one value.")
        limits = event_file.exponential_bin_edges() if bins == "tensorflow" else np.histogram_bin_edges(array, bins)
        self._log(event_file.encode_histogram_summary(tag, array, limits), global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "CHW"
    ) -> None:
        """Log an image: uint8, or fractions of 255. Raises ValueError if `dataformats` does not match the array."""
        self._log(plugins.encode_image(tag, to_pixels(_to_array(img_tensor), dataformats)), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: Any = None, dataformats: str = "NCHW"
    ) -> None:
        """Log several images as a grid with at most eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: Any = None
    ) -> None:
        """Log a matplotlib figure, or a list of figures of one size, which become one image with a grid.

        Closes the figures unless `close` is False. Raises ModuleNotFoundError if matplotlib is not installed.
        """
        # Imported here, because matplotlib is optional. This canvas needs no window.
        backend: Any = importlib.import_module("matplotlib.backends.backend_agg")
        pictures = []
        for f in figure if isinstance(figure, list) else [figure]:
            canvas = backend.FigureCanvasAgg(f)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[..., :3])
            if close:
                importlib.import_module("matplotlib.pyplot").close(f)
        self.add_image(tag, np.stack(pictures), global_step, walltime, "NHWC")

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: Any = None,
    ) -> None:
        """Log a precision-recall curve. `labels` are 0 or 1 and `predictions` from 0 to 1.

        At most 127 thresholds are used, as in TensorBoard.
        """
        wanted, predicted = (_to_array(a).ravel() for a in (labels, predictions))
        count = min(num_thresholds, 127)  # TensorBoard's limit
        at = None if weights is None else np.asarray(_to_array(weights), np.float64).ravel()
        self._log(plugins.encode_pr_curve(tag, wanted, predicted, count, at), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Log hyperparameters and results of a run into a subfolder of `log_dir`, `run_name` or the current time.

        The results are also logged as scalars of `global_step`. Raises TypeError if `hparam_dict` or `metric_dict` is
        no dict, and ValueError for a hyperparameter that is no number, string, bool or tensor.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise ArgumentInvalid(
                "hparam_dict and metric_dict should be dictionary.", where=source.where(), hint="Pass two dicts."
            )
        values = {k: v.item() if isinstance(v, Tensor) else v for k, v in hparam_dict.items()}
        said = plugins.encode_hyperparameters(values, metric_dict, hparam_domain_discrete or {}, time.time())
        # The plugin shows one row per run, and a folder is a run.
        with EventWriter(pathlib.Path(self.log_dir) / (run_name or str(time.time()))) as writer:
            for message in said:
                writer._log(message, None, None)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Log the graph of a module for the arguments `input_to_model`, grouped by module.

        `verbose` prints the size of the graph. `use_strict_trace` has no effect. The module is called once.
        """
        given = input_to_model if isinstance(input_to_model, list | tuple) else (input_to_model,)
        scopes = {m: m.__dict__["_scope"] for m in model.modules()}
        try:
            # Name the scopes first: operations record the path of their module, which is not set before.
            name_scopes(model, type(model).__name__)
            outputs = [t.node for _, t in flatten(model(*given))]
        finally:
            for m, scope in scopes.items():
                m.__dict__["_scope"] = scope
        named = (*model.named_parameters(), *model.named_buffers())
        state = {t.node: f"{type(model).__name__}.{name}" for name, t in named}
        nodes = plugins.encode_graph(outputs, state)
        if verbose:
            print(f"{len(nodes):,} bytes of graph")
        # Field 4 of an event is a graph.
        self._log(event_file.encode_bytes_field(4, nodes), None, None)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: list[str] | None = None,
    ) -> None:
        """Log points `mat` of shape [rows, dimensions] for TensorBoard's projector.

        `metadata` has a label, or a list of labels under `metadata_header`, for each point, and `label_img` an image of
        shape [channels, height, width]. Raises ValueError if there are not as many labels or images as points.
        """
        place = f"{int(global_step or 0):05d}/{quote(tag, safe='')}"
        pictures = None if label_img is None else _to_array(label_img)
        projector.write_points(
            pathlib.Path(self.log_dir), place, tag, _to_array(mat), (metadata, metadata_header), pictures
        )

    def flush(self) -> None:
        """Write all data to the files, including those of `add_scalars`."""
        for writer in (self, *self._parts.values()):
            writer._file.flush()

    def close(self) -> None:
        """Close the files, including those of `add_scalars`."""
        for writer in (self, *self._parts.values()):
            writer._file.close()

    def __enter__(self) -> "EventWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SummaryWriter(EventWriter):
    """An EventWriter that also writes tensors. `base_step` is the step under which a run's first step is logged."""

    def __init__(self, *args: Any, base_step: int = 1, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.base_step = base_step
        self._tensors = pathlib.Path(self.log_dir) / f"events.out.csevents.{self._tail}"
        # The folder has the same number as the event file.
        self._tensors.mkdir()

    @property
    def cs_events_dir(self) -> str:
        """The folder of the tensors."""
        return str(self._tensors)

    def add_tensor(self, name: str, tensor: Tensor, step: int) -> None:
        """Write a tensor to a new HDF5 file, tensors/NAME/STEP.TIME.h5. Raises TypeError for anything else.

        NAME is escaped, and TIME is in nanoseconds, so that a second call for the same step makes another file.
        """
        if not isinstance(tensor, Tensor):
            raise ArgumentInvalid(
                f"Expected a torch.Tensor, got {type(tensor)}", where=source.where(), hint="Pass a tensor."
            )
        # Escape dots: a name such as ".." would be a parent folder.
        folder = self._tensors / "tensors" / quote(name, safe="").replace(".", "%2E")
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save({"tensor": tensor.detach()}, folder / f"{step}.{time.time_ns()}.h5")


class SummaryReader:
    """A reader of what SummaryWriters have written into a folder and its subfolders.

    The files are read when the reader is created. Raises OptionMissing for a `filter` other than "*".
    """

    def __init__(self, log_dirs: Any, filter: str | None = None, **_: Any):
        if filter not in (None, "", "*"):
            raise OptionMissing(
                f"SummaryReader does not support filter={filter!r}",
                where=source.where(),
                hint="Pass the folder of one run, or select names from scalar_names().",
            )
        self._folder = pathlib.Path(log_dirs)
        self.reload()

    def reload(self) -> None:
        """Read all event files and the names of tensor files again, in place of what was read before."""
        self._logged: dict[str, list[ScalarEvent]] = defaultdict(list)
        self._texts: dict[str, list[TextEvent]] = defaultdict(list)
        self._stored: dict[str, list[pathlib.Path]] = defaultdict(list)
        # Sort by name, which contains the time, so that later files come later.
        for path in sorted(self._folder.rglob("events.out.tfevents.*")):
            self._read(path)
        for path in sorted(self._folder.rglob("events.out.csevents.*/tensors/*/*.h5")):
            self._stored[unquote(path.parent.name)].append(path)

    def _read(self, path: pathlib.Path) -> None:
        """Read the numbers and texts of an event file. Warns of damaged records, which are skipped."""
        with open_plain_file(path) as file:
            data = file.read()

        def damaged(what: str) -> None:
            warnings.warn(f"{path}: {what} are not read", UserWarning, stacklevel=4)

        for message in event_file.decode_records(data, damaged):
            try:
                events = event_file.decode_message(message)
            except DataError as e:
                damaged(f"{e.what}: its {len(message)} bytes")
                continue
            for tag, event in events:
                if isinstance(event, TextEvent):
                    self._texts[tag.removesuffix("/text_summary")].append(event)
                else:
                    self._logged[tag].append(event)

    def scalar_names(self) -> set[str]:
        """Return the names of all scalars."""
        return set(self._logged)

    def scalar_groups(self) -> set[str]:
        """Return the names of all scalars up to their first slash."""
        return {name.partition("/")[0] for name in self._logged}

    def tensor_names(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._stored)

    def text_summary_names(self) -> list[str]:
        """Return the names of all texts."""
        return list(self._texts)

    def read_text_summary(self, name: str, step: int | None = None) -> list[TextEvent]:
        """Return the texts with a name, only those of `step` if it is given."""
        return [event for event in self._texts.get(name, ()) if step in (None, event.step)]

    def read_scalar(self, name: str, step: int | None = None) -> Any:
        """Return the list of events of a scalar, or the last event of `step` if it is given.

        The list is empty for an unknown name. Raises KeyError if the step has no event.
        """
        events = list(self._logged.get(name, ()))
        if step is None:
            return events
        # After a restart a step may be logged twice. The later event counts.
        for event in reversed(events):
            if event.step == step:
                return event
        raise KeyError(f"Could not find scalar {name} at step {step}")

    def read_tensor(self, name: str, step: int | None = None, latest_only: bool = True) -> Any:
        """Return the tensors with a name as a dict from steps to TensorDescriptors, or None if there are none.

        If `step` is given, return only its entry, or None. An entry is the latest tensor of the step, or the list of
        all of them if `latest_only` is False.
        """
        tensors: dict[int, list[TensorDescriptor]] = defaultdict(list)
        for path in self._stored.get(name, ()):
            at, nanoseconds = map(int, path.stem.split("."))
            if step in (None, at):
                tensors[at].append(TensorDescriptor(at, nanoseconds, checkpoint.load(path)["tensor"]))
        ordered = {at: sorted(all_, key=lambda d: d.ns_since_epoch) for at, all_ in sorted(tensors.items())}
        # The file name contains the time, which distinguishes tensors of the same step.
        chosen: dict[int, Any] = {at: all_[-1] for at, all_ in ordered.items()} if latest_only else dict(ordered)
        if step is not None:
            return chosen.get(step)
        return chosen or None

    def Scalars(self, name: str) -> list[ScalarEvent]:
        """Return the list of events of a scalar."""
        return list(self._logged.get(name, ()))

    def Tags(self) -> dict[str, list[str]]:
        """Return {"scalars": names of all scalars}, or an empty dict if there are none."""
        return {"scalars": list(self._logged)} if self._logged else {}
