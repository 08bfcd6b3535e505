"""`asarray` shares memory where PyTorch does; the expectations are what PyTorch 2.13 answers."""

import itertools

import numpy as np
import pytest

import lazytensor as lt


def new_tensor(kind):
    leaf = lt.ones(2, requires_grad=kind != "plain")
    return leaf * 2 if kind == "computed" else leaf


def expected_relation(kind, requires_grad, copy, dtype):
    """What PyTorch gives of a tensor of float32: the tensor itself, another one over its memory, or a copy."""
    if dtype is lt.float64:
        return None if copy is False else "copy"
    if copy:
        return "copy"
    return "shared" if kind == "computed" and requires_grad is False else "same"


CASES = itertools.product(
    ("plain", "leaf", "computed"), (None, True, False), (None, True, False), (None, lt.float32, lt.float64)
)


@pytest.mark.parametrize("kind, requires_grad, copy, dtype", list(CASES))
def test_tensor_is_returned_shared_or_copied_as_in_pytorch(kind, requires_grad, copy, dtype):
    x = new_tensor(kind)
    relation = expected_relation(kind, requires_grad, copy, dtype)
    if relation is None:
        with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
            lt.asarray(x, dtype=dtype, copy=copy, requires_grad=requires_grad)
        return
    y = lt.asarray(x, dtype=dtype, copy=copy, requires_grad=requires_grad)
    assert (y is x) == (relation == "same")
    assert (y.data_ptr() == x.data_ptr()) == (relation != "copy")
    assert y.requires_grad == (kind != "plain" if requires_grad is None else requires_grad)
    assert y.dtype is (dtype or lt.float32)
    if relation != "same":
        assert x.requires_grad == (kind != "plain")


def test_copy_keeps_the_history_of_a_tensor():
    x = lt.ones(2, requires_grad=True)
    lt.asarray(x * 3, dtype=lt.float64).sum().backward()
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "?"])
def test_array_shares_memory_in_both_directions(kind):
    array = np.zeros(3, kind)
    x = lt.asarray(array, copy=False)
    array[0] = 1
    x[2] = 1
    assert x.tolist() == [1, 0, 1] == array.tolist()
    copied = lt.asarray(array, copy=True)
    array[1] = 1
    assert copied.tolist() == [1, 0, 1]


def test_array_of_another_type_is_copied_or_refused():
    array = np.zeros(2)
    x = lt.asarray(array, dtype=lt.float32)
    array[0] = 1
    assert x.tolist() == [0, 0] and x.dtype is lt.float32
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Float'"):
        lt.asarray(array, dtype=lt.float32, copy=False)


@pytest.mark.parametrize("scalar, dtype", [(np.float32(2), lt.float32), (np.float64(2), lt.float64)])
def test_scalar_of_numpy_keeps_its_type(scalar, dtype):
    x = lt.asarray(scalar)
    assert x.shape == () and x.dtype is dtype and x.item() == 2


@pytest.mark.parametrize(
    "obj, dtype", [(3, lt.int64), (3.5, lt.float32), (True, lt.bool), ([1, 2.5], lt.float32), ((1, 2), lt.int64)]
)
def test_numbers_and_sequences_are_read_as_tensor_reads_them(obj, dtype):
    x = lt.asarray(obj)
    assert x.dtype is dtype and x.tolist() == lt.tensor(obj).tolist()
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        lt.asarray(obj, copy=False)


def test_buffer_is_read_as_elements_of_the_type():
    buffer = bytearray(b"abcd")
    x = lt.asarray(buffer, dtype=lt.uint8, copy=False)
    buffer[0] = 0
    x[3] = 1
    assert x.tolist() == [0, 98, 99, 1] == list(buffer)
    assert lt.asarray(memoryview(buffer), dtype=lt.int16).tolist() == np.frombuffer(buffer, "i2").tolist()
    assert lt.asarray(np.float32([1, 2]).tobytes()).tolist() == [1, 2]  # the default type
    assert lt.asarray(bytes([0, 0, 128, 63]), dtype=lt.bfloat16).tolist() == [0, 1]


@pytest.mark.parametrize(
    "buffer, message",
    [
        (b"abcde", r"buffer length \(5 bytes\) .* must be a multiple of element size \(4\)"),
        (b"", r"both buffer length \(0\) and count \(-1\) must not be 0"),
    ],
)
def test_buffer_of_a_wrong_length_is_refused(buffer, message):
    with pytest.raises(ValueError, match=message):
        lt.asarray(buffer, dtype=lt.int32)


class Exporter:
    """An object of another library that exports an array by DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_exported_memory_is_shared():
    array = np.zeros(2)
    x = lt.asarray(Exporter(array))
    array[0] = 1
    assert x.tolist() == [1, 0]


def test_requires_grad_makes_leaves():
    for obj in ([1.0, 2.0], np.ones(2), np.float32(1)):
        x = lt.asarray(obj, requires_grad=True)
        assert x.requires_grad and x.is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        lt.asarray([1, 2], requires_grad=True)


def test_device_moves_the_result():
    assert str(lt.asarray(np.ones(2), device="meta").device) == "meta"
    with lt.Device("meta"):
        assert str(lt.asarray(lt.ones(2, device="cpu")).device) == "meta"
        assert str(lt.asarray([1.0]).device) == "meta"
    with pytest.raises(ValueError, match="can't alias tensor from device 'cpu' to 'meta'"):
        lt.asarray(lt.ones(2), device="meta", copy=False)


@pytest.mark.parametrize("options", [{"dtype": "float"}, {"copy": 1}, {"requires_grad": 0}])
def test_option_of_a_wrong_type_is_refused(options):
    with pytest.raises(TypeError, match="must be"):
        lt.asarray([1.0], **options)
