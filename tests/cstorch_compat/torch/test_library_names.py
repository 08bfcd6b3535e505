"""Names that libraries read: torch.testing, torch.overrides, torch.hub, torch.jit, futures, fusion, private names."""

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import OptionMissing

torch = get_mirror("torch")
testing, overrides = get_mirror("torch.testing"), get_mirror("torch.overrides")

# --- torch.testing: messages are PyTorch 2.13.0's ---

TENSORS = (
    "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
    "Greatest absolute difference: 0.09999990463256836 at index (1,) (up to 1e-05 allowed)\n"
    "Greatest relative difference: 0.04761900380253792 at index (1,) (up to 1.3e-06 allowed)"
)
NUMBERS = (
    "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-07 allowed)\n"
    "Relative difference: 0.5 (up to 1e-07 allowed)"
)
NAN = (
    "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\n"
    "Greatest absolute difference: nan at index (0,) (up to 1e-05 allowed)\n"
    "Greatest relative difference: nan at index (0,) (up to 1.3e-06 allowed)"
)
EQUAL = (
    "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
    "Greatest absolute difference: 1 at index (1,)\nGreatest relative difference: 1.0 at index (1,)"
)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (lambda: torch.tensor([1.0, 2.0]), lambda: torch.tensor([1.0, 2.1]), TENSORS),
        (lambda: torch.tensor([float("nan")]), lambda: torch.tensor([float("nan")]), NAN),
        (lambda: torch.tensor([True, False]), lambda: torch.tensor([True, True]), EQUAL),
        (lambda: 1.0, lambda: 2.0, NUMBERS),
        (lambda: {"a": [5.0, 1.0]}, lambda: {"a": [5.0, 2.0]}, NUMBERS + "\n\nThe failure occurred for item ['a'][1]"),
        (lambda: [1], lambda: [1, 2], "The length of the sequences mismatch: 1 != 2"),
        (lambda: 1, lambda: 1.0, "The (d)types do not match: <class 'int'> != <class 'float'>."),
        (
            lambda: torch.ones(2),
            lambda: torch.ones(3),
            "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([3]).",
        ),
        (
            lambda: torch.ones(2),
            lambda: torch.ones(2).double(),
            "The values for attribute 'dtype' do not match: torch.float32 != torch.float64.",
        ),
    ],
)
def test_assert_close_raises_with_the_message_of_pytorch(actual, expected, message):
    with pytest.raises(AssertionError) as caught:
        testing.assert_close(actual(), expected())
    # Names of types and sizes begin with the name of the package, which is torch where the shim is installed.
    assert str(caught.value).replace("lazytensor.", "torch.") == message


def test_assert_close_accepts_what_is_within_the_tolerances():
    a = torch.tensor([1.0, 2.0])
    testing.assert_close(a, a + 1e-6)
    testing.assert_close(a, torch.tensor([1.0, 2.1]), rtol=0.1, atol=0)
    testing.assert_close(a.bfloat16(), a.bfloat16() * 1.01)
    testing.assert_close({"a": [a, 1]}, {"a": [a.clone(), 1]})
    testing.assert_close(np.ones(2), np.ones(2))
    testing.assert_close(torch.tensor([float("nan")]), torch.tensor([float("nan")]), equal_nan=True)
    testing.assert_close(a, a.double(), check_dtype=False)
    with pytest.raises(AssertionError, match=r"^mine$"):
        testing.assert_close(a, a + 1, msg="mine")
    with pytest.raises(ValueError, match="got no atol"):
        testing.assert_close(a, a, rtol=1)
    with pytest.raises(TypeError, match="No comparison pair"):
        testing.assert_close("x", "x")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int64", "uint8", "bool"])
def test_random_tensors_have_the_type_and_the_range(name):
    dtype = getattr(torch, name)
    drawn = testing.make_tensor(50, 4, dtype=dtype, device="cpu")
    low, high = {"uint8": (0, 9), "bool": (0, 1)}.get(name, (-9, 9))
    assert drawn.dtype is dtype and drawn.shape == (50, 4)
    assert low <= drawn.min().item() and drawn.max().item() <= high and len(set(drawn.flatten().tolist())) > 1
    strided = testing.make_tensor((3, 4), dtype=dtype, low=1, high=2, noncontiguous=True)
    assert not strided.is_contiguous() and strided.shape == (3, 4) and strided.min().item() >= 1


# --- torch.overrides ---


class Wrapped:
    """A number that replaces functions that are written for it."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return Wrapped(func(*(a.value if isinstance(a, Wrapped) else a for a in args), **kwargs or {}))


def test_functions_of_libraries_call_torch_function_of_their_arguments():
    @overrides.wrap_torch_function(lambda a, b: (a, b))
    def add(a, b):
        return a + b

    assert add(1, 2) == 3
    assert add(Wrapped(1), 2).value == 3
    assert overrides.has_torch_function((torch.ones(1), Wrapped(1))) and not overrides.has_torch_function((3,))
    assert overrides.is_tensor_like(torch.ones(1)) and overrides.is_tensor_like(Wrapped(1))
    assert not overrides.is_tensor_like([1])


def test_a_mode_that_replaces_all_functions_is_refused_at_the_users_line():
    with pytest.raises(OptionMissing, match=r"test_library_names\.py:\d+"), overrides.TorchFunctionMode():
        pass


# --- torch.hub, torch.jit, torch.futures, torch.utils.checkpoint ---


def test_constants_of_the_hub_are_those_of_pytorch(monkeypatch):
    hub = get_mirror("torch.hub")
    assert hub.HASH_REGEX.search("resnet18-f37072fd.pth")[1] == "f37072fd"
    assert hub.urlparse("https://a.b/c/d.pth").path == "/c/d.pth"
    monkeypatch.setenv(hub.ENV_TORCH_HOME, "/cache")
    assert (hub._get_torch_home(), hub.get_dir()) == ("/cache", "/cache/hub")


def test_annotations_and_decorators_of_scripts_leave_functions_unchanged():
    jit = get_mirror("torch.jit")
    assert jit._overload_method(len) is jit._overload(len) is jit.script_if_tracing(len) is len
    assert (
        get_mirror("torch.jit.annotations").List is list or get_mirror("torch.jit.annotations").BroadcastingList2[int]
    )


def test_futures_have_the_result_of_a_call():
    jit, futures = get_mirror("torch.jit"), get_mirror("torch.futures")
    assert jit.wait(jit.fork(lambda a, b: a + b, 1, b=2)) == 3
    future = futures.Future()
    following = future.then(lambda f: f.value() + 1)
    with pytest.raises(RuntimeError):
        future.value()
    future.set_result(1)
    assert future.done() and following.wait() == 2
    assert [f.wait() for f in futures.collect_all([future, following]).wait()] == [1, 2]
    with pytest.raises(RuntimeError, match="completed"):
        future.set_result(1)
    failed = futures.Future()
    failed.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        failed.wait()


def test_states_of_generators_of_devices_are_empty():
    checkpoint = get_mirror("torch.utils.checkpoint")
    states = checkpoint.get_device_states(torch.ones(2))
    assert states == ([], [])
    checkpoint.set_device_states(*states)
    with pytest.raises(AssertionError, match="CUDA"):
        checkpoint.set_device_states([0], [torch.ones(1)])


# --- torch.nn.utils.fusion ---


@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_fused_layer_computes_the_layer_and_its_normalization(kind):
    nn, fusion = get_mirror("torch.nn"), get_mirror("torch.nn.utils.fusion")
    torch.manual_seed(0)
    layer, norm, shape = {
        "conv": (nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), (4, 2, 5, 5)),
        "transposed": (nn.ConvTranspose2d(2, 3, 2, bias=False), nn.BatchNorm2d(3, affine=False), (4, 2, 5, 5)),
        "linear": (nn.Linear(2, 3), nn.BatchNorm1d(3), (4, 2)),
    }[kind]
    x = torch.randn(*shape)
    norm(layer(x) * 2 + 1)
    with pytest.raises(AssertionError, match="eval"):
        fusion.fuse_conv_bn_eval(layer, norm)
    layer.eval(), norm.eval()
    if kind == "linear":
        fused = fusion.fuse_linear_bn_eval(layer, norm)
    else:
        fused = fusion.fuse_conv_bn_eval(layer, norm, transpose=kind == "transposed")
    testing.assert_close(fused(x), norm(layer(x)), rtol=1e-5, atol=1e-5)
    assert fused is not layer


# --- private names ---


def test_operators_are_those_of_an_installation_without_libraries():
    assert not hasattr(torch.ops.torchvision, "nms")
    assert torch.ops.aten is torch.ops.aten
    with pytest.raises(AttributeError, match=r"torch\.ops\.torchvision has no operator 'nms'"):
        torch.ops.torchvision.nms  # noqa: B018
    with pytest.raises(OSError, match="cannot be loaded"):
        torch.ops.load_library("x.so")


def test_private_names_answer_as_without_their_feature():
    functorch = get_mirror("torch._C._functorch")
    x = torch.ones(2)
    assert functorch.get_unwrapped(x) is x and not functorch.is_batchedtensor(x)
    assert functorch.maybe_get_level(x) == -1 and functorch.peek_interpreter_stack() is None
    assert get_mirror("torch._dynamo.config").cache_size_limit == 8
    assert not get_mirror("torch.utils._python_dispatch").is_traceable_wrapper_subclass(x)
    assert torch._C._jit_set_profiling_mode(False) is False and not torch.cuda._initialized
    assert torch.linalg.LinAlgError is torch._C._LinAlgError and issubclass(torch.linalg.LinAlgError, RuntimeError)
    torch._assert(True, "")
    torch._assert_async(x[0])
    with pytest.raises(AssertionError, match="no"):
        torch._assert(False, "no")
    with pytest.raises(RuntimeError, match="nonzero"):
        torch._assert_async(torch.zeros(1))


# --- torch.optim.optimizer ---


def test_helpers_of_optimizers_answer_as_on_the_cpu():
    helpers = get_mirror("torch.optim.optimizer")
    p = torch.nn.Parameter(torch.ones(1))

    class Step(torch.optim.Optimizer):
        @helpers._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    assert not Step([p], {}).step() and Step([p], {"differentiable": True}).step()
    assert repr(helpers.required) == "<required parameter>"
    assert helpers._default_to_fused_or_foreach([p], False) == (False, False)
    assert helpers._default_to_fused_or_foreach([p], False, use_fused=True) == (True, False)
    assert (helpers._get_value(torch.tensor(2.0)), helpers._get_value(3)) == (2.0, 3)
    assert helpers._to_scalar(torch.ones(1, 1)).dim() == 0 and helpers._stack_if_compiling([p]) == [p]
    assert helpers._get_scalar_dtype() is torch.float32
    assert helpers._disable_dynamo_if_unsupported()(len) is len and helpers._view_as_real([p]) is None
    assert helpers._get_capturable_supported_devices(False)[-1] == "privateuseone"


def test_module_under_two_names_is_initialized_once():
    model, seen = torch.nn.Module(), []
    model.first = model.second = torch.nn.Linear(2, 2)
    model.apply(seen.append)
    assert seen == [model.first, model] and [name for name, _ in model.named_children()] == ["first"]


def test_torch_contains_itself_and_tensors_have_no_tangent():
    assert torch.torch.Tensor is torch.Tensor
    x = torch.ones(2)
    assert torch.autograd.forward_ad.unpack_dual(x).primal is x
    assert torch.autograd.forward_ad.unpack_dual(x).tangent is None


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("float8_e4m3fn", (8, 0.125, 448.0, -448.0, 0.015625, 1.0)),
        ("float8_e5m2", (8, 0.25, 57344.0, -57344.0, 6.103515625e-05, 1.0)),
        ("float8_e4m3fnuz", (8, 0.125, 240.0, -240.0, 0.0078125, 1.0)),
        ("float8_e5m2fnuz", (8, 0.25, 57344.0, -57344.0, 3.0517578125e-05, 1.0)),
    ],
)
def test_limits_of_small_floats_are_known_though_no_tensor_has_them(name, limits):
    i = torch.finfo(getattr(torch, name))
    assert (i.bits, i.eps, i.max, i.min, i.tiny, i.resolution) == limits
    with pytest.raises(OptionMissing, match="8"):
        torch.finfo(torch.float8_e8m0fnu)
