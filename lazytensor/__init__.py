"""Lazy tensors with PyTorch's names: operations are recorded as a graph and computed when somebody looks.

Every public name stands here. `public` adds what all functions share: `out=`, PyTorch's names for operands, automatic
casts, and what the wafer refuses.
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
from lazytensor.functional import activation as _activations
from lazytensor.functional import asarray as _sharing
from lazytensor.functional import attach_members as _attach
from lazytensor.functional import bitwise as _integers
from lazytensor.functional import convolution as _convolution
from lazytensor.functional import creation as _creation
from lazytensor.functional import cumulative as _scans
from lazytensor.functional import gather_scatter as _gathering
from lazytensor.functional import indexing as _indexing
from lazytensor.functional import interpolation as _interpolation
from lazytensor.functional import joining_and_splitting as _arrange
from lazytensor.functional import linalg as _linalg
from lazytensor.functional import loss as _losses
from lazytensor.functional import margin_loss as _margins
from lazytensor.functional import matmul as _matrix
from lazytensor.functional import normalization as _normalization
from lazytensor.functional import padding_and_shuffles as _resampling
from lazytensor.functional import pointwise as _pointwise
from lazytensor.functional import pointwise_special as _elementary
from lazytensor.functional import pointwise_ternary as _ternary
from lazytensor.functional import pooling as _pooling
from lazytensor.functional import quantile as _quantiles
from lazytensor.functional import random_sampling as _randomness
from lazytensor.functional import reduction as _reductions
from lazytensor.functional import sorting as _sorting
from lazytensor.functional import spectral as _spectral
from lazytensor.functional import statistics as _statistics
from lazytensor.functional import strided_views as _windows
from lazytensor.functional import tensor_attributes as _protocols
from lazytensor.functional import tensor_products as _contraction
from lazytensor.functional import views as _shapes
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

alpha_dropout = public(_activations.alpha_dropout)
celu = public(_activations.celu)
dropout = public(_activations.dropout)
feature_alpha_dropout = public(_activations.feature_alpha_dropout)
feature_dropout = public(_activations.feature_dropout)
hardshrink = public(_activations.hardshrink)
prelu = public(_activations.prelu)
rrelu = public(_activations.rrelu)
selu = public(_activations.selu)
threshold = public(_activations.threshold)

alias_copy = public(_arrange.alias_copy)
atleast_1d = public(_arrange.atleast_1d)
atleast_2d = public(_arrange.atleast_2d)
atleast_3d = public(_arrange.atleast_3d)
block_diag = public(_arrange.block_diag)
broadcast_shapes = public(_arrange.broadcast_shapes)
cartesian_prod = public(_arrange.cartesian_prod)
column_stack = public(_arrange.column_stack)
constant_pad_nd = public(_arrange.constant_pad_nd)
dsplit = public(_arrange.dsplit)
dstack = public(_arrange.dstack)
expand_copy = public(_arrange.expand_copy)
hsplit = public(_arrange.hsplit)
hstack = public(_arrange.hstack)
meshgrid = public(_arrange.meshgrid)
movedim = moveaxis = public(_arrange.movedim)
narrow_copy = public(_arrange.narrow_copy)
permute_copy = public(_arrange.permute_copy)
ravel = public(_arrange.ravel)
select_copy = public(_arrange.select_copy)
slice_copy = public(_arrange.slice_copy)
split_copy = public(_arrange.split_copy)
split_with_sizes = unsafe_split_with_sizes = public(_arrange.split_with_sizes)
split_with_sizes_copy = public(_arrange.split_with_sizes_copy)
squeeze_copy = public(_arrange.squeeze_copy)
swapaxes = public(_arrange.swapaxes)
swapdims = public(_arrange.swapdims)
t_copy = public(_arrange.t_copy)
tensor_split = public(_arrange.tensor_split)
tile = public(_arrange.tile)
transpose_copy = public(_arrange.transpose_copy)
unbind_copy = public(_arrange.unbind_copy)
unflatten = public(_arrange.unflatten)
unsafe_chunk = public(_arrange.unsafe_chunk)
unsafe_split = public(_arrange.unsafe_split)
unsqueeze_copy = public(_arrange.unsqueeze_copy)
view_copy = public(_arrange.view_copy)
vsplit = public(_arrange.vsplit)
vstack = row_stack = public(_arrange.vstack)

addbmm = public(_contraction.addbmm)
addmv = public(_contraction.addmv)
addr = public(_contraction.addr)
chain_matmul = public(_contraction.chain_matmul)
cross = public(_contraction.cross)
einsum = public(_contraction.einsum)
ger = public(_contraction.ger)
inner = public(_contraction.inner)
kron = public(_contraction.kron)
tensordot = public(_contraction.tensordot)
vdot = public(_contraction.vdot)

conv1d = public(_convolution.conv1d)
conv2d = public(_convolution.conv2d)
conv3d = public(_convolution.conv3d)
conv_transpose1d = public(_convolution.conv_transpose1d)
conv_transpose2d = public(_convolution.conv_transpose2d)
conv_transpose3d = public(_convolution.conv_transpose3d)

arange = public(_creation.arange)
as_tensor = public(_creation.as_tensor)
asarray = public(_sharing.asarray)
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

argwhere = public(_gathering.argwhere)
combinations = public(_gathering.combinations)
count_nonzero = public(_gathering.count_nonzero)
gather = public(_gathering.gather)
index_add = public(_gathering.index_add)
index_copy = public(_gathering.index_copy)
index_fill = public(_gathering.index_fill)
index_reduce = public(_gathering.index_reduce)
index_select = public(_gathering.index_select)
masked_scatter = public(_gathering.masked_scatter)
masked_select = public(_gathering.masked_select)
nonzero = public(_gathering.nonzero)
put = public(_gathering.put)
repeat_interleave = public(_gathering.repeat_interleave)
scatter = public(_gathering.scatter)
scatter_add = public(_gathering.scatter_add)
scatter_reduce = public(_gathering.scatter_reduce)
take = public(_gathering.take)
take_along_dim = public(_gathering.take_along_dim)
unravel_index = public(_gathering.unravel_index)
where = public(_gathering.where)

index_put = public(_indexing.index_put)

bitwise_and = public(_integers.bitwise_and)
bitwise_left_shift = public(_integers.bitwise_left_shift)
bitwise_not = public(_integers.bitwise_not)
bitwise_or = public(_integers.bitwise_or)
bitwise_right_shift = public(_integers.bitwise_right_shift)
bitwise_xor = public(_integers.bitwise_xor)
gcd = public(_integers.gcd)
lcm = public(_integers.lcm)

grid_sampler_2d = grid_sampler = grid_sampler_3d = public(_interpolation.grid_sampler_2d)

cholesky = public(_linalg.cholesky)
cholesky_inverse = public(_linalg.cholesky_inverse)
cholesky_solve = public(_linalg.cholesky_solve)
det = public(_linalg.det)
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

binary_cross_entropy_with_logits = public(_losses.binary_cross_entropy_with_logits)
kl_div = public(_losses.kl_div)
poisson_nll_loss = public(_losses.poisson_nll_loss)

cosine_embedding_loss = public(_margins.cosine_embedding_loss)
hinge_embedding_loss = public(_margins.hinge_embedding_loss)
margin_ranking_loss = public(_margins.margin_ranking_loss)
triplet_margin_loss = public(_margins.triplet_margin_loss)

addmm = public(_matrix.addmm)
baddbmm = public(_matrix.baddbmm)
bmm = public(_matrix.bmm)
dot = public(_matrix.dot)
matmul = public(_matrix.matmul)
mm = public(_matrix.mm)
mv = public(_matrix.mv)
outer = public(_matrix.outer)

batch_norm = public(_normalization.batch_norm)
cosine_similarity = public(_normalization.cosine_similarity)
group_norm = public(_normalization.group_norm)
instance_norm = public(_normalization.instance_norm)
layer_norm = public(_normalization.layer_norm)
native_batch_norm = public(_normalization.native_batch_norm)
native_group_norm = public(_normalization.native_group_norm)
native_layer_norm = public(_normalization.native_layer_norm)
pairwise_distance = public(_normalization.pairwise_distance)
rms_norm = public(_normalization.rms_norm)

abs = absolute = public(_pointwise.abs)
add = public(_pointwise.add)
addcdiv = public(_ternary.addcdiv)
addcmul = public(_ternary.addcmul)
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
lerp = public(_ternary.lerp)
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
reciprocal = public(_pointwise.reciprocal)
relu = public(_pointwise.relu)
remainder = public(_pointwise.remainder)
round = public(_pointwise.round)
rsqrt = public(_pointwise.rsqrt)
rsub = public(_pointwise.rsub)
sigmoid = public(_pointwise.sigmoid)
sign = public(_pointwise.sign)
sgn = public(_elementary.sgn)
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

from_dlpack = public(_protocols.from_dlpack)
is_same_size = public(_protocols.is_same_size)

nanquantile = public(_quantiles.nanquantile)
quantile = public(_quantiles.quantile)

bernoulli = public(_randomness.bernoulli)
fork_rng = public(_randomness.fork_rng)
get_rng_state = public(_randomness.get_rng_state)
initial_seed = public(_randomness.initial_seed)
multinomial = public(_randomness.multinomial)
seed = public(_randomness.seed)
set_rng_state = public(_randomness.set_rng_state)

all = public(_reductions.all)
amax = public(_reductions.amax)
amin = public(_reductions.amin)
any = public(_reductions.any)
argmax = public(_reductions.argmax)
argmin = public(_reductions.argmin)
log_softmax = public(_reductions.log_softmax)
logsumexp = public(_reductions.logsumexp)
max = public(_reductions.max)
mean = public(_reductions.mean)
min = public(_reductions.min)
prod = public(_reductions.prod)
softmax = public(_reductions.softmax)
sum = public(_reductions.sum)

channel_shuffle = public(_resampling.channel_shuffle)
pixel_shuffle = public(_resampling.pixel_shuffle)
pixel_unshuffle = public(_resampling.pixel_unshuffle)

cummax = public(_scans.cummax)
cummin = public(_scans.cummin)
cumprod = public(_scans.cumprod)
cumsum = public(_scans.cumsum)
cumulative_trapezoid = public(_scans.cumulative_trapezoid)
diff = public(_scans.diff)
flip = public(_scans.flip)
fliplr = public(_scans.fliplr)
flipud = public(_scans.flipud)
logcumsumexp = public(_scans.logcumsumexp)
roll = public(_scans.roll)
rot90 = public(_scans.rot90)
trapezoid = trapz = public(_scans.trapezoid)

broadcast_tensors = public(_shapes.broadcast_tensors)
broadcast_to = public(_shapes.broadcast_to)
cat = public(_shapes.cat)
chunk = public(_shapes.chunk)
flatten = public(_shapes.flatten)
narrow = public(_shapes.narrow)
permute = public(_shapes.permute)
reshape = public(_shapes.reshape)
select = public(_shapes.select)
split = public(_shapes.split)
squeeze = public(_shapes.squeeze)
stack = public(_shapes.stack)
t = public(_shapes.t)
transpose = public(_shapes.transpose)
tril = public(_shapes.tril)
triu = public(_shapes.triu)
unbind = public(_shapes.unbind)
unsqueeze = public(_shapes.unsqueeze)

aminmax = public(_sorting.aminmax)
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

acos = arccos = public(_elementary.acos)
acosh = arccosh = public(_elementary.acosh)
allclose = public(_elementary.allclose)
angle = public(_elementary.angle)
asin = arcsin = public(_elementary.asin)
asinh = arcsinh = public(_elementary.asinh)
atan = arctan = public(_elementary.atan)
atanh = arctanh = public(_elementary.atanh)
can_cast = public(_elementary.can_cast)
clamp_max = public(_elementary.clamp_max)
clamp_min = public(_elementary.clamp_min)
conj = conj_physical = resolve_conj = resolve_neg = public(_elementary.conj)
copysign = public(_elementary.copysign)
cosh = public(_elementary.cosh)
deg2rad = public(_elementary.deg2rad)
digamma = public(_elementary.digamma)
equal = public(_elementary.equal)
erfc = public(_elementary.erfc)
erfinv = public(_elementary.erfinv)
exp2 = public(_elementary.exp2)
fill = public(_elementary.fill)
float_power = public(_elementary.float_power)
fmax = public(_elementary.fmax)
fmin = public(_elementary.fmin)
frac = public(_elementary.frac)
frexp = public(_elementary.frexp)
heaviside = public(_elementary.heaviside)
hypot = public(_elementary.hypot)
i0 = public(_elementary.i0)
igamma = public(_elementary.igamma)
igammac = public(_elementary.igammac)
is_complex = is_conj = is_neg = public(_elementary.is_complex)
is_nonzero = public(_elementary.is_nonzero)
is_signed = public(_elementary.is_signed)
isclose = public(_elementary.isclose)
isneginf = public(_elementary.isneginf)
isposinf = public(_elementary.isposinf)
isreal = public(_elementary.isreal)
ldexp = public(_elementary.ldexp)
lgamma = public(_elementary.lgamma)
log10 = public(_elementary.log10)
logaddexp = public(_elementary.logaddexp)
logaddexp2 = public(_elementary.logaddexp2)
logit = public(_elementary.logit)
mvlgamma = public(_elementary.mvlgamma)
nan_to_num = public(_elementary.nan_to_num)
nextafter = public(_elementary.nextafter)
polygamma = public(_elementary.polygamma)
positive = public(_elementary.positive)
promote_types = public(_promote)
rad2deg = public(_elementary.rad2deg)
scalar_tensor = public(_elementary.scalar_tensor)
signbit = public(_elementary.signbit)
sinc = public(_elementary.sinc)
sinh = public(_elementary.sinh)
xlogy = public(_elementary.xlogy)

stft = public(_spectral.stft)

cdist = public(_statistics.cdist)
corrcoef = public(_statistics.corrcoef)
cov = public(_statistics.cov)
dist = public(_statistics.dist)
gradient = public(_statistics.gradient)
nanmean = public(_statistics.nanmean)
nansum = public(_statistics.nansum)
norm = public(_statistics.norm)
renorm = public(_statistics.renorm)
std = public(_statistics.std)
std_mean = public(_statistics.std_mean)
var = public(_statistics.var)
var_mean = public(_statistics.var_mean)

as_strided = public(_windows.as_strided)
as_strided_copy = public(_windows.as_strided_copy)
as_strided_scatter = public(_windows.as_strided_scatter)
diag = public(_windows.diag)
diag_embed = public(_windows.diag_embed)
diagflat = public(_windows.diagflat)
diagonal = public(_windows.diagonal)
diagonal_copy = public(_windows.diagonal_copy)
diagonal_scatter = public(_windows.diagonal_scatter)
select_scatter = public(_windows.select_scatter)
slice_scatter = public(_windows.slice_scatter)
tril_indices = public(_windows.tril_indices)
triu_indices = public(_windows.triu_indices)
unfold_copy = public(_windows.unfold_copy)

concat = concatenate = cat
bool = bool_  # the name that PyTorch's scripts write

_OURS = ("public", "to_onnx", "trace", "trace_graph", "bool", "concat", "concatenate")
PUBLIC = tuple(n for n, v in globals().items() if not (n.startswith("_") or n in _OURS or isinstance(v, _Module)))
"""Every function, type and class above: what the PyTorch mirror offers under the same spelling."""
_MODULES = ("autograd", "config", "errors", "linalg", "nn", "optim", "random", "special", "storage")
__all__ = sorted((*PUBLIC, *(n for n in _OURS if n != "public"), *_MODULES))  # noqa: PLE0605

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

if not _typing.TYPE_CHECKING:  # a type checker would take any name for an attribute

    def __getattr__(name: str) -> _typing.Any:
        """Return a module that had this name before it moved."""
        return _moved_attribute(__name__, name)


def __dir__() -> list[str]:
    """The public names; modules that are not public can be imported, and are not shown."""
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
