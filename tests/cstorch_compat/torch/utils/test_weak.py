"""Dictionaries with weak keys that compare by identity."""

import gc

from cstorch_compat.torch.utils.weak import WeakIdKeyDictionary, WeakIdRef
from lazytensor import ones


def test_tensors_are_keys_by_identity_and_leave_with_the_tensor():
    a, b = ones(2), ones(2)
    d = WeakIdKeyDictionary({a: 1})
    d[b] = 2
    assert d[a] == 1 and d[b] == 2 and len(d) == 2 and a in d and ones(2) not in d
    assert list(d) != [] and all(any(k is t for t in (a, b)) for k in d)
    del a
    gc.collect()
    assert len(d) == 1 and list(d.values()) == [2]
    del d[b]
    assert dict(d) == {}


def test_references_are_equal_if_their_objects_are_the_same():
    a, b = ones(2), ones(2)
    assert WeakIdRef(a) == WeakIdRef(a) and WeakIdRef(a) != WeakIdRef(b)
    assert len({WeakIdRef(a), WeakIdRef(a), WeakIdRef(b)}) == 2
