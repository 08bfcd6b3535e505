"""The table of `tests.bench.operations`: every case runs, and every public operation with a gradient has one."""

import re

import pytest

import lazytensor as lt
from tests.bench.operation_cases import cases, make_step

CASES = cases()
NAMES = sorted({name for case in CASES.values() for name in re.findall(r"\.(\w+)(?=\()", case.text)})
WITHOUT_GRADIENT = """
    all allclose any arange argmax argmin argsort argwhere as_tensor asarray bernoulli bincount bitwise_and bitwise_not
    bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_shapes bucketize can_cast count_nonzero
    empty empty_like enable_grad eq equal eye finfo floor_divide fork_rng frexp from_dlpack from_numpy full full_like
    gcd ge geqrf get_rng_state greater greater_equal gt heaviside histc histogram iinfo igamma igammac inference_mode
    initial_seed is_complex is_conj is_grad_enabled is_inference_mode_enabled is_neg is_nonzero is_same_size is_signed
    isclose isfinite isin isinf isnan isneginf isposinf isreal lcm le less less_equal linspace logical_and logical_not
    logical_or logical_xor logspace lt manual_seed matrix_rank multinomial ne nextafter no_grad nonzero not_equal
    one_hot ones ones_like ormqr promote_types rand rand_like randint randn randn_like randperm result_type
    scalar_tensor searchsorted seed set_default_dtype set_grad_enabled set_rng_state signbit tensor tril_indices
    triu_indices unique unique_consecutive unravel_index zeros zeros_like default_dtype gammainc gammaincc eig eigvals
"""
SAME_WORK = """
    absolute adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices angle
    arccos arccosh arcsin arcsinh arctan arctan2 arctanh atleast_1d atleast_2d atleast_3d broadcast_tensors cholesky
    clamp_max clamp_min conj_physical constant_pad_nd det diagflat divide dropout1d dropout3d dsplit erf expit exp2
    feature_alpha_dropout feature_dropout fill fix flatten gammaln grid_sampler grid_sampler_2d grid_sampler_3d hsplit
    inverse max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices max_unpool1d max_unpool2d
    max_unpool3d moveaxis multigammaln multiply nanmedian nanquantile native_batch_norm native_group_norm
    native_layer_norm negative pinverse psi qr ravel resolve_conj resolve_neg row_stack slogdet squeeze stft subtract
    swapaxes swapdims t trapz true_divide unsafe_chunk unsafe_split unsafe_split_with_sizes split_with_sizes unsqueeze
    unfold_copy upsample upsample_bilinear upsample_nearest vsplit lu_solve lu_unpack
    real cholesky_ex inv_ex lu_factor_ex solve_ex tensorinv tensorsolve
"""
"""Other names of operations in the table, and variants that run the same kernels."""


# fold and unfold are functions of the `torch` module only.
@pytest.mark.parametrize("name", [name for name in CASES if "fold(x" not in name])
def test_a_case_computes_and_differentiates(name):
    make_step(lt, CASES[name], 1000)()


def test_every_public_operation_with_a_gradient_is_timed():
    functions = {name for name, value in vars(lt.nn.functional).items() if hasattr(value, "__wrapped__")}
    public = functions | {*lt.special.__all__, *lt.linalg.__all__} | {n for n in lt.PUBLIC if n[0].islower()}
    public = {n for n in public if not n.endswith(("_copy", "_")) and not hasattr(getattr(lt, n, None), "itemsize")}
    missing = public - set(NAMES) - set(f"{WITHOUT_GRADIENT} {SAME_WORK}".split())
    assert not missing, sorted(missing)
