"""Weak references and dictionaries with weak keys that compare keys by identity: `torch.utils.weak`."""

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any


class WeakIdRef(weakref.ref[Any]):
    """A weak reference whose hash and equality are those of the identity of the object, also after its end.

    A plain weak reference compares the objects, which tensors answer by a tensor.
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, weakref.ref) else None
        # After the end of an object another one may have its id.
        return self is other if mine is None or theirs is None else mine is theirs

    def __ne__(self, other: object) -> bool:
        return not self == other


WeakTensorRef = WeakTensorRefKey = TensorWeakRef = WeakIdRef


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary that compares keys by identity and removes an item when its key is deleted.

    >>> key = frozenset([1])
    >>> d = WeakIdKeyDictionary({key: "value"})
    >>> d[key], frozenset([1]) in d
    ('value', False)
    >>> del key
    >>> len(d)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef):
        self.data: Any = {}
        self.ref_type = ref_type
        # The callback must not keep the dictionary alive.
        owner = weakref.ref(self)

        def remove(reference: WeakIdRef) -> None:
            mine = owner()
            if mine is not None:
                mine.data.pop(reference, None)

        self._remove = remove
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        return self.ref_type(key) in self.data

    def __iter__(self) -> Iterator[Any]:
        # A copy, because a deleted key changes the dictionary.
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
