"""Data pipes, data sets that other data sets are chained onto: `torch.utils.data.datapipes`."""

import copy
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from lazytensor.data import Dataset, IterableDataset


class _MethodLookup:
    """The base class of data pipes: registered data pipes are methods of every data pipe of their kind."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make `function(pipe, ...)` the method `function_name` of all data pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any) -> None:
        """Make the constructor of a class the method `function_name`. Raises ValueError if the name is in use."""
        if function_name in cls.functions:
            raise ValueError(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.register_function(function_name, cls_to_register)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class IterDataPipe(_MethodLookup, IterableDataset[Any]):
    """An iterable data set whose registered functions are methods. A subclass defines `__iter__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class MapDataPipe(_MethodLookup, Dataset[Any]):
    """A data set with indices whose registered functions are methods. A subclass defines `__getitem__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """A decorator of a class of data pipes, by which `pipe.name(...)` constructs the class with `pipe` as its source.

    `enable_df_api_tracing` has no effect.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False):
        self.name = name

    def __call__(self, cls: Any) -> Any:
        """Register `cls` and return it. Raises TypeError if it is no class of data pipes."""
        kind = next((k for k in (IterDataPipe, MapDataPipe) if isinstance(cls, type) and issubclass(cls, k)), None)
        if kind is None:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        kind.register_datapipe_as_function(self.name, cls)
        return cls


class IterableWrapper(IterDataPipe):
    """A data pipe of the items of an iterable, which is copied at each iteration if `deepcopy`."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """A data pipe of `fn(item)` for the items of another one."""

    def __init__(self, datapipe: Iterable[Any], fn: Callable[[Any], Any]):
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator[Any]:
        return map(self.fn, self.datapipe)


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """A data pipe of the items of another one for which `filter_fn(item)` is true."""

    def __init__(self, datapipe: Iterable[Any], filter_fn: Callable[[Any], bool]):
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        return filter(self.filter_fn, self.datapipe)


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """A data pipe of lists of `batch_size` items of another one, made by `wrapper_class`.

    The last list may be shorter, and is left out if `drop_last`.
    """

    def __init__(
        self, datapipe: Iterable[Any], batch_size: int, drop_last: bool = False, wrapper_class: Any = list
    ) -> None:
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (
            datapipe, batch_size, drop_last, wrapper_class,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)
