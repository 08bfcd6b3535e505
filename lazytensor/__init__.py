"""Lazy tensors with PyTorch's API: operations are recorded as a graph and computed when their values are read.

This module defines all public names. `public` adds what all functions have in common: `out=`, PyTorch's names of
arguments, automatic casts, and refusals of operations that the wafer does not support.
"""

import typing as _typing
from types import ModuleType as _Module

from lazytensor import autograd as autograd
from lazytensor import linalg as linalg
from lazytensor import nn as nn
from lazytensor import optim as optim
from lazytensor import special as special
from lazytensor.autograd.grad_modes import enable_grad as enable_grad
from lazytensor.autograd.grad_modes import inference_mode as inference_mode
from lazytensor.autograd.grad_modes import is_inference_mode_enabled as is_inference_mode_enabled
from lazytensor.autograd.grad_modes import no_grad as no_grad
from lazytensor.autograd.grad_modes import set_grad_enabled as set_grad_enabled
from lazytensor.core import storage as storage
from lazytensor.core.dtype import bfloat16 as bfloat16
from lazytensor.core.dtype import bool_ as bool_
from lazytensor.core.dtype import cbfloat16 as cbfloat16
from lazytensor.core.dtype import float16 as float16
from lazytensor.core.dtype import float32 as float32
from lazytensor.core.dtype import float64 as float64
from lazytensor.core.dtype import int8 as int8
from lazytensor.core.dtype import int16 as int16
from lazytensor.core.dtype import int32 as int32
from lazytensor.core.dtype import int64 as int64
from lazytensor.core.dtype import promote as _promote
from lazytensor.core.dtype import uint8 as uint8
from lazytensor.core.dtype import uint16 as uint16
from lazytensor.core.tensor import Device as Device
from lazytensor.core.tensor import Size as Size
from lazytensor.core.tensor import Tensor as Tensor
from lazytensor.core.tensor import is_grad_enabled as is_grad_enabled
from lazytensor.core.tracing import trace as trace
from lazytensor.core.tracing import trace_graph as trace_graph
from lazytensor.exchange.to_onnx import to_onnx as to_onnx
from lazytensor.functional import activation as _activation
from lazytensor.functional import argument_errors as _argument_errors
from lazytensor.functional import asarray as _asarray
from lazytensor.functional import attach_members as _attach_members
from lazytensor.functional import bitwise as _bitwise
from lazytensor.functional import comparison as _comparison
from lazytensor.functional import convolution as _convolution
from lazytensor.functional import creation as _creation
from lazytensor.functional import cumulative as _cumulative
from lazytensor.functional import diagonals as _diagonals
from lazytensor.functional import distance as _distance
from lazytensor.functional import dropout as _dropout
from lazytensor.functional import finite_differences as _finite_differences
from lazytensor.functional import flip_and_roll as _flip_and_roll
from lazytensor.functional import gather_scatter as _gather_scatter
from lazytensor.functional import indexing as _indexing
from lazytensor.functional import interpolation as _interpolation
from lazytensor.functional import joining_and_splitting as _joining_and_splitting
from lazytensor.functional import linalg as _linalg
from lazytensor.functional import loss as _loss
from lazytensor.functional import margin_loss as _margin_loss
from lazytensor.functional import matmul as _matmul
from lazytensor.functional import normalization as _normalization
from lazytensor.functional import padding_and_shuffles as _padding_and_shuffles
from lazytensor.functional import pointwise as _pointwise
from lazytensor.functional import pointwise_special as _pointwise_special
from lazytensor.functional import pointwise_ternary as _pointwise_ternary
from lazytensor.functional import pooling as _pooling
from lazytensor.functional import quantile as _quantile
from lazytensor.functional import random_sampling as _random_sampling
from lazytensor.functional import reduction as _reduction
from lazytensor.functional import sorting as _sorting
from lazytensor.functional import spectral as _spectral
from lazytensor.functional import statistics as _statistics
from lazytensor.functional import strided_views as _strided_views
from lazytensor.functional import tensor_attributes as _tensor_attributes
from lazytensor.functional import tensor_products as _tensor_products
from lazytensor.functional import type_promotion as _type_promotion
from lazytensor.functional import views as _views
from lazytensor.functional.out_arguments import public
from lazytensor.functional.type_info import finfo as finfo
from lazytensor.functional.type_info import iinfo as iinfo
from lazytensor.functional.type_promotion import default_dtype as default_dtype
from lazytensor.functional.type_promotion import result_type as result_type
from lazytensor.functional.type_promotion import set_default_dtype as set_default_dtype
from lazytensor.random import Generator as Generator
from lazytensor.random import manual_seed as manual_seed
from lazytensor.system.moved_modules import deprecate_paths as _deprecate_paths
from lazytensor.system.moved_modules import moved_attribute as _moved_attribute

__version__ = "0.2.0"

alpha_dropout = public(_dropout.alpha_dropout)
celu = public(_activation.celu)
dropout = public(_dropout.dropout)
feature_alpha_dropout = public(_dropout.feature_alpha_dropout)
feature_dropout = public(_dropout.feature_dropout)
hardshrink = public(_activation.hardshrink)
prelu = public(_activation.prelu)
rrelu = public(_activation.rrelu)
selu = public(_activation.selu)
threshold = public(_activation.threshold)

alias_copy = public(_joining_and_splitting.alias_copy)
atleast_1d = public(_joining_and_splitting.atleast_1d)
atleast_2d = public(_joining_and_splitting.atleast_2d)
atleast_3d = public(_joining_and_splitting.atleast_3d)
block_diag = public(_joining_and_splitting.block_diag)
broadcast_shapes = public(_joining_and_splitting.broadcast_shapes)
cartesian_prod = public(_joining_and_splitting.cartesian_prod)
column_stack = public(_joining_and_splitting.column_stack)
constant_pad_nd = public(_padding_and_shuffles.constant_pad_nd)
dsplit = public(_joining_and_splitting.dsplit)
dstack = public(_joining_and_splitting.dstack)
expand_copy = public(_joining_and_splitting.expand_copy)
hsplit = public(_joining_and_splitting.hsplit)
hstack = public(_joining_and_splitting.hstack)
meshgrid = public(_joining_and_splitting.meshgrid)
movedim = moveaxis = public(_views.movedim)
narrow_copy = public(_joining_and_splitting.narrow_copy)
permute_copy = public(_joining_and_splitting.permute_copy)
ravel = public(_views.ravel)
select_copy = public(_joining_and_splitting.select_copy)
slice_copy = public(_joining_and_splitting.slice_copy)
split_copy = public(_joining_and_splitting.split_copy)
split_with_sizes = unsafe_split_with_sizes = public(_joining_and_splitting.split_with_sizes)
split_with_sizes_copy = public(_joining_and_splitting.split_with_sizes_copy)
squeeze_copy = public(_joining_and_splitting.squeeze_copy)
swapaxes = public(_views.swapaxes)
swapdims = public(_views.swapdims)
t_copy = public(_joining_and_splitting.t_copy)
tensor_split = public(_joining_and_splitting.tensor_split)
tile = public(_joining_and_splitting.tile)
transpose_copy = public(_joining_and_splitting.transpose_copy)
unbind_copy = public(_joining_and_splitting.unbind_copy)
unflatten = public(_views.unflatten)
unsafe_chunk = public(_joining_and_splitting.unsafe_chunk)
unsafe_split = public(_joining_and_splitting.unsafe_split)
unsqueeze_copy = public(_joining_and_splitting.unsqueeze_copy)
view_copy = public(_joining_and_splitting.view_copy)
vsplit = public(_joining_and_splitting.vsplit)
vstack = row_stack = public(_joining_and_splitting.vstack)

addbmm = public(_tensor_products.addbmm)
addmv = public(_tensor_products.addmv)
addr = public(_tensor_products.addr)
chain_matmul = public(_tensor_products.chain_matmul)
cross = public(_tensor_products.cross)
einsum = public(_tensor_products.einsum)
ger = public(_tensor_products.ger)
inner = public(_tensor_products.inner)
kron = public(_tensor_products.kron)
tensordot = public(_tensor_products.tensordot)
vdot = public(_tensor_products.vdot)

conv1d = public(_convolution.conv1d)
conv2d = public(_convolution.conv2d)
conv3d = public(_convolution.conv3d)
conv_transpose1d = public(_convolution.conv_transpose1d)
conv_transpose2d = public(_convolution.conv_transpose2d)
conv_transpose3d = public(_convolution.conv_transpose3d)

arange = public(_creation.arange)
as_tensor = public(_creation.as_tensor)
asarray = public(_asarray.asarray)
empty = public(_creation.empty)
empty_like = public(_creation.empty_like)
eye = public(_creation.eye)
from_numpy = public(_creation.from_numpy)
full = public(_creation.full)
full_like = public(_creation.full_like)
linspace = public(_creation.linspace)
logspace = public(_creation.logspace)
ones = public(_creation.ones)
ones_like = public(_creation.ones_like)
rand = public(_creation.rand)
rand_like = public(_creation.rand_like)
randint = public(_creation.randint)
randn = public(_creation.randn)
randn_like = public(_creation.randn_like)
randperm = public(_creation.randperm)
tensor = public(_creation.tensor)
zeros = public(_creation.zeros)
zeros_like = public(_creation.zeros_like)

argwhere = public(_gather_scatter.argwhere)
combinations = public(_gather_scatter.combinations)
count_nonzero = public(_reduction.count_nonzero)
gather = public(_gather_scatter.gather)
index_add = public(_gather_scatter.index_add)
index_copy = public(_gather_scatter.index_copy)
index_fill = public(_gather_scatter.index_fill)
index_reduce = public(_gather_scatter.index_reduce)
index_select = public(_gather_scatter.index_select)
masked_scatter = public(_gather_scatter.masked_scatter)
masked_select = public(_gather_scatter.masked_select)
nonzero = public(_gather_scatter.nonzero)
put = public(_gather_scatter.put)
repeat_interleave = public(_gather_scatter.repeat_interleave)
scatter = public(_gather_scatter.scatter)
scatter_add = public(_gather_scatter.scatter_add)
scatter_reduce = public(_gather_scatter.scatter_reduce)
take = public(_gather_scatter.take)
take_along_dim = public(_gather_scatter.take_along_dim)
unravel_index = public(_gather_scatter.unravel_index)
where = public(_gather_scatter.where)

index_put = public(_indexing.index_put)

bitwise_and = public(_bitwise.bitwise_and)
bitwise_left_shift = public(_bitwise.bitwise_left_shift)
bitwise_not = public(_bitwise.bitwise_not)
bitwise_or = public(_bitwise.bitwise_or)
bitwise_right_shift = public(_bitwise.bitwise_right_shift)
bitwise_xor = public(_bitwise.bitwise_xor)
gcd = public(_bitwise.gcd)
lcm = public(_bitwise.lcm)

grid_sampler_2d = grid_sampler = grid_sampler_3d = public(_interpolation.grid_sampler_2d)

cholesky = public(_linalg.cholesky)
cholesky_inverse = public(_linalg.cholesky_inverse)
cholesky_solve = public(_linalg.cholesky_solve)
det = public(_linalg.det, has_out=False)
geqrf = public(_linalg.geqrf)
inverse = public(_linalg.inverse)
logdet = public(_linalg.logdet)
lu_solve = public(_linalg.lu_solve)
lu_unpack = public(_linalg.lu_unpack)
matrix_exp = public(_linalg.matrix_exp)
matrix_power = public(_linalg.matrix_power)
ormqr = public(_linalg.ormqr)
pinverse = public(_linalg.pinverse)
qr = public(_linalg.qr)
slogdet = public(_linalg.slogdet)
triangular_solve = public(_linalg.triangular_solve)

binary_cross_entropy_with_logits = public(_loss.binary_cross_entropy_with_logits)
kl_div = public(_loss.kl_div)
poisson_nll_loss = public(_loss.poisson_nll_loss)

cosine_embedding_loss = public(_margin_loss.cosine_embedding_loss)
hinge_embedding_loss = public(_margin_loss.hinge_embedding_loss)
margin_ranking_loss = public(_margin_loss.margin_ranking_loss)
triplet_margin_loss = public(_margin_loss.triplet_margin_loss)

addmm = public(_matmul.addmm)
baddbmm = public(_matmul.baddbmm)
bmm = public(_matmul.bmm)
dot = public(_matmul.dot)
matmul = public(_matmul.matmul)
mm = public(_matmul.mm)
mv = public(_matmul.mv)
outer = public(_matmul.outer)

batch_norm = public(_normalization.batch_norm)
cosine_similarity = public(_distance.cosine_similarity)
group_norm = public(_normalization.group_norm)
instance_norm = public(_normalization.instance_norm)
layer_norm = public(_normalization.layer_norm)
native_batch_norm = public(_normalization.native_batch_norm)
native_group_norm = public(_normalization.native_group_norm)
native_layer_norm = public(_normalization.native_layer_norm)
pairwise_distance = public(_distance.pairwise_distance)
rms_norm = public(_normalization.rms_norm)

abs = absolute = public(_pointwise.abs)
add = public(_pointwise.add)
addcdiv = public(_pointwise_ternary.addcdiv)
addcmul = public(_pointwise_ternary.addcmul)
atan2 = arctan2 = public(_pointwise.atan2)
ceil = public(_pointwise.ceil)
clamp = clip = public(_pointwise.clamp)
clone = public(_pointwise.clone)
cos = public(_pointwise.cos)
div = divide = true_divide = public(_pointwise.div)
eq = public(_pointwise.eq)
erf = public(_pointwise.erf)
exp = public(_pointwise.exp)
expm1 = public(_pointwise.expm1)
floor = public(_pointwise.floor)
floor_divide = public(_pointwise.floor_divide)
fmod = public(_pointwise.fmod)
ge = greater_equal = public(_pointwise.ge)
gt = greater = public(_pointwise.gt)
isfinite = public(_pointwise.isfinite)
isinf = public(_pointwise.isinf)
isnan = public(_pointwise.isnan)
le = less_equal = public(_pointwise.le)
lerp = public(_pointwise_ternary.lerp)
log = public(_pointwise.log)
log1p = public(_pointwise.log1p)
log2 = public(_pointwise.log2)
logical_and = public(_pointwise.logical_and)
logical_not = public(_pointwise.logical_not)
logical_or = public(_pointwise.logical_or)
logical_xor = public(_pointwise.logical_xor)
lt = less = public(_pointwise.lt)
masked_fill = public(_pointwise.masked_fill)
maximum = public(_pointwise.maximum)
minimum = public(_pointwise.minimum)
mul = multiply = public(_pointwise.mul)
ne = not_equal = public(_pointwise.ne)
neg = negative = public(_pointwise.neg)
pow = public(_pointwise.pow)
real = public(_pointwise_special.real)
reciprocal = public(_pointwise.reciprocal)
relu = public(_pointwise.relu)
remainder = public(_pointwise.remainder)
round = public(_pointwise.round)
rsqrt = public(_pointwise.rsqrt)
rsub = public(_pointwise.rsub)
sigmoid = public(_pointwise.sigmoid)
sign = public(_pointwise.sign)
sgn = public(_pointwise_special.sgn)
sin = public(_pointwise.sin)
sqrt = public(_pointwise.sqrt)
square = public(_pointwise.square)
sub = subtract = public(_pointwise.sub)
tan = public(_pointwise.tan)
tanh = public(_pointwise.tanh)
trunc = fix = public(_pointwise.trunc)

adaptive_avg_pool1d = public(_pooling.adaptive_avg_pool1d)
adaptive_max_pool1d = public(_pooling.adaptive_max_pool1d)
avg_pool1d = public(_pooling.avg_pool1d)
max_pool1d = public(_pooling.max_pool1d)
max_pool1d_with_indices = public(_pooling.max_pool1d_with_indices)
max_pool2d = public(_pooling.max_pool2d)
max_pool3d = public(_pooling.max_pool3d)

from_dlpack = public(_tensor_attributes.from_dlpack)
is_same_size = public(_tensor_attributes.is_same_size)

nanquantile = public(_quantile.nanquantile)
quantile = public(_quantile.quantile)

bernoulli = public(_random_sampling.bernoulli)
fork_rng = public(_random_sampling.fork_rng)
get_rng_state = public(_random_sampling.get_rng_state)
initial_seed = public(_random_sampling.initial_seed)
multinomial = public(_random_sampling.multinomial)
seed = public(_random_sampling.seed)
set_rng_state = public(_random_sampling.set_rng_state)

all = public(_reduction.all)
amax = public(_reduction.amax)
amin = public(_reduction.amin)
any = public(_reduction.any)
argmax = public(_reduction.argmax)
argmin = public(_reduction.argmin)
log_softmax = public(_reduction.log_softmax)
logsumexp = public(_reduction.logsumexp)
max = public(_reduction.max)
mean = public(_reduction.mean)
min = public(_reduction.min)
prod = public(_reduction.prod)
softmax = public(_reduction.softmax)
sum = public(_reduction.sum)

channel_shuffle = public(_padding_and_shuffles.channel_shuffle)
pixel_shuffle = public(_padding_and_shuffles.pixel_shuffle)
pixel_unshuffle = public(_padding_and_shuffles.pixel_unshuffle)

cummax = public(_cumulative.cummax)
cummin = public(_cumulative.cummin)
cumprod = public(_cumulative.cumprod)
cumsum = public(_cumulative.cumsum)
cumulative_trapezoid = public(_finite_differences.cumulative_trapezoid)
diff = public(_finite_differences.diff)
flip = public(_flip_and_roll.flip)
fliplr = public(_flip_and_roll.fliplr)
flipud = public(_flip_and_roll.flipud)
logcumsumexp = public(_cumulative.logcumsumexp)
roll = public(_flip_and_roll.roll)
rot90 = public(_flip_and_roll.rot90)
trapezoid = trapz = public(_finite_differences.trapezoid)

broadcast_tensors = public(_views.broadcast_tensors)
broadcast_to = public(_views.broadcast_to)
cat = public(_joining_and_splitting.cat)
chunk = public(_joining_and_splitting.chunk)
flatten = public(_views.flatten)
narrow = public(_views.narrow)
permute = public(_views.permute)
reshape = public(_views.reshape)
select = public(_views.select)
split = public(_joining_and_splitting.split)
squeeze = public(_views.squeeze)
stack = public(_joining_and_splitting.stack)
t = public(_views.t)
transpose = public(_views.transpose)
tril = public(_diagonals.tril)
triu = public(_diagonals.triu)
unbind = public(_joining_and_splitting.unbind)
unsqueeze = public(_views.unsqueeze)

aminmax = public(_reduction.aminmax)
argsort = public(_sorting.argsort)
bincount = public(_sorting.bincount)
bucketize = public(_sorting.bucketize)
histc = public(_sorting.histc)
histogram = public(_sorting.histogram)
isin = public(_sorting.isin)
kthvalue = public(_sorting.kthvalue)
median = public(_sorting.median)
mode = public(_sorting.mode)
msort = public(_sorting.msort)
nanmedian = public(_sorting.nanmedian)
searchsorted = public(_sorting.searchsorted)
sort = public(_sorting.sort)
topk = public(_sorting.topk)
unique = public(_sorting.unique)
unique_consecutive = public(_sorting.unique_consecutive)

acos = arccos = public(_pointwise_special.acos)
acosh = arccosh = public(_pointwise_special.acosh)
allclose = public(_comparison.allclose)
angle = public(_pointwise_special.angle)
asin = arcsin = public(_pointwise_special.asin)
asinh = arcsinh = public(_pointwise_special.asinh)
atan = arctan = public(_pointwise_special.atan)
atanh = arctanh = public(_pointwise_special.atanh)
can_cast = public(_type_promotion.can_cast)
clamp_max = public(_pointwise_special.clamp_max)
clamp_min = public(_pointwise_special.clamp_min)
conj = conj_physical = resolve_conj = resolve_neg = public(_pointwise_special.conj)
copysign = public(_pointwise_special.copysign)
cosh = public(_pointwise_special.cosh)
deg2rad = public(_pointwise_special.deg2rad)
digamma = public(_pointwise_special.digamma)
equal = public(_comparison.equal)
erfc = public(_pointwise_special.erfc)
erfinv = public(_pointwise_special.erfinv)
exp2 = public(_pointwise_special.exp2)
fill = public(_pointwise_special.fill)
float_power = public(_pointwise_special.float_power)
fmax = public(_pointwise_special.fmax)
fmin = public(_pointwise_special.fmin)
frac = public(_pointwise_special.frac)
frexp = public(_pointwise_special.frexp)
heaviside = public(_pointwise_special.heaviside)
hypot = public(_pointwise_special.hypot)
i0 = public(_pointwise_special.i0)
igamma = public(_pointwise_special.igamma)
igammac = public(_pointwise_special.igammac)
is_complex = is_conj = is_neg = public(_tensor_attributes.is_complex)
is_nonzero = public(_tensor_attributes.is_nonzero)
is_signed = public(_tensor_attributes.is_signed)
isclose = public(_comparison.isclose)
isneginf = public(_pointwise_special.isneginf)
isposinf = public(_pointwise_special.isposinf)
isreal = public(_pointwise_special.isreal)
ldexp = public(_pointwise_special.ldexp)
lgamma = public(_pointwise_special.lgamma)
log10 = public(_pointwise_special.log10)
logaddexp = public(_pointwise_special.logaddexp)
logaddexp2 = public(_pointwise_special.logaddexp2)
logit = public(_pointwise_special.logit)
mvlgamma = public(_pointwise_special.mvlgamma)
nan_to_num = public(_pointwise_special.nan_to_num)
nextafter = public(_pointwise_special.nextafter)
polygamma = public(_pointwise_special.polygamma)
positive = public(_pointwise_special.positive)
promote_types = public(_promote)
rad2deg = public(_pointwise_special.rad2deg)
scalar_tensor = public(_creation.scalar_tensor)
signbit = public(_pointwise_special.signbit)
sinc = public(_pointwise_special.sinc)
sinh = public(_pointwise_special.sinh)
xlogy = public(_pointwise_special.xlogy)

stft = public(_spectral.stft)

cdist = public(_distance.cdist)
corrcoef = public(_statistics.corrcoef)
cov = public(_statistics.cov)
dist = public(_distance.dist)
gradient = public(_finite_differences.gradient)
nanmean = public(_reduction.nanmean)
nansum = public(_reduction.nansum)
norm = public(_statistics.norm)
renorm = public(_statistics.renorm)
std = public(_statistics.std)
std_mean = public(_statistics.std_mean)
var = public(_statistics.var)
var_mean = public(_statistics.var_mean)

as_strided = public(_strided_views.as_strided)
as_strided_copy = public(_strided_views.as_strided_copy)
as_strided_scatter = public(_strided_views.as_strided_scatter)
diag = public(_diagonals.diag)
diag_embed = public(_diagonals.diag_embed)
diagflat = public(_diagonals.diagflat)
diagonal = public(_diagonals.diagonal)
diagonal_copy = public(_diagonals.diagonal_copy)
diagonal_scatter = public(_diagonals.diagonal_scatter)
select_scatter = public(_strided_views.select_scatter)
slice_scatter = public(_strided_views.slice_scatter)
tril_indices = public(_diagonals.tril_indices)
triu_indices = public(_diagonals.triu_indices)
unfold_copy = public(_strided_views.unfold_copy)

concat = concatenate = cat
bool = bool_  # PyTorch's name

_OURS = ("public", "to_onnx", "trace", "trace_graph", "bool", "concat", "concatenate")
PUBLIC = tuple(n for n, v in globals().items() if not (n.startswith("_") or n in _OURS or isinstance(v, _Module)))
"""All public functions, types and classes of this module, which the PyTorch mirror offers under the same names."""
_MODULES = ("autograd", "config", "errors", "linalg", "nn", "optim", "random", "special", "storage")
__all__ = sorted((*PUBLIC, *(n for n in _OURS if n != "public"), *_MODULES))  # noqa: PLE0605

_argument_errors.public_namespaces[:] = [globals(), vars(nn.functional)]
_deprecate_paths(
    {
        "lazytensor.abstract": "lazytensor.core.abstract_step",
        "lazytensor.capture": "lazytensor.core.capture",
        "lazytensor.cells": "lazytensor.core.storage",
        "lazytensor.cirh.text": "lazytensor.cirh.printer",
        "lazytensor.dtype": "lazytensor.core.dtype",
        "lazytensor.nn.scopes": "lazytensor.nn.module_scopes",
        "lazytensor.runtime.store": "lazytensor.runtime.state_store",
        "lazytensor.table": "lazytensor.display.table",
    }
)

if not _typing.TYPE_CHECKING:  # otherwise a type checker would accept any attribute

    def __getattr__(name: str) -> _typing.Any:
        """Return a module that had this name before it was moved, with a DeprecationWarning."""
        return _moved_attribute(__name__, name)


def __dir__() -> list[str]:
    """Return the public names. Other modules can be imported but are not listed."""
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
