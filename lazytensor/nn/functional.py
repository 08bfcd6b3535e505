"""Functions for models, as torch.nn.functional has them, with argument checks, automatic casts and wafer refusals."""

from collections.abc import Callable
from types import FunctionType

from lazytensor.core.tensor import Tensor
from lazytensor.functional import (
    activation,
    argument_errors,
    attention,
    convolution,
    distance,
    interpolation,
    loss,
    margin_loss,
    matmul,
    normalization,
    padding_and_shuffles,
    pooling,
)
from lazytensor.functional import ctc_loss as _ctc_loss
from lazytensor.functional import dropout as _dropout
from lazytensor.functional import embedding as _embedding
from lazytensor.functional.autocast_rules import publish
from lazytensor.functional.out_arguments import accept_torch_names as _accept_torch_names

# Not published with casts: `linear` and `embedding` cast their operands themselves, also inside modules.
linear = argument_errors.guard_arguments(matmul.linear)
embedding = argument_errors.guard_arguments(_embedding.embedding)
embedding_bag = publish(_embedding.embedding_bag)
one_hot = publish(_embedding.one_hot)

relu = publish(activation.relu)
relu_ = publish(activation.relu_)
gelu = publish(activation.gelu)
silu = publish(activation.silu)
leaky_relu = publish(activation.leaky_relu)
leaky_relu_ = publish(activation.leaky_relu_)
elu = publish(activation.elu)
elu_ = publish(activation.elu_)
celu = publish(activation.celu)
celu_ = publish(activation.celu_)
selu = publish(activation.selu)
selu_ = publish(activation.selu_)
softplus = publish(activation.softplus)
logsigmoid = publish(activation.logsigmoid)
hardtanh = publish(activation.hardtanh)
hardtanh_ = publish(activation.hardtanh_)
relu6 = publish(activation.relu6)
hardswish = publish(activation.hardswish)
hardsigmoid = publish(activation.hardsigmoid)
hardshrink = publish(activation.hardshrink)
softshrink = publish(activation.softshrink)
softsign = publish(activation.softsign)
tanhshrink = publish(activation.tanhshrink)
threshold = publish(activation.threshold)
threshold_ = publish(activation.threshold_)
mish = publish(activation.mish)
glu = publish(activation.glu)
prelu = publish(activation.prelu)
rrelu = publish(activation.rrelu)
rrelu_ = publish(activation.rrelu_)
sigmoid: Callable[..., Tensor] = _accept_torch_names(publish(activation.sigmoid), has_out=False)
tanh: Callable[..., Tensor] = _accept_torch_names(publish(activation.tanh), has_out=False)
softmax = publish(activation.softmax)
softmin = publish(activation.softmin)
log_softmax = publish(activation.log_softmax)
dropout = publish(_dropout.dropout)
dropout1d = publish(_dropout.dropout1d)
dropout2d = publish(_dropout.dropout2d)
dropout3d = publish(_dropout.dropout3d)
alpha_dropout = publish(_dropout.alpha_dropout)
feature_alpha_dropout = publish(_dropout.feature_alpha_dropout)

scaled_dot_product_attention = publish(attention.scaled_dot_product_attention)
bilinear = publish(matmul.bilinear)

conv1d = publish(convolution.conv1d)
conv2d = publish(convolution.conv2d)
conv3d = publish(convolution.conv3d)
conv_transpose1d = publish(convolution.conv_transpose1d)
conv_transpose2d = publish(convolution.conv_transpose2d)
conv_transpose3d = publish(convolution.conv_transpose3d)

ctc_loss = publish(_ctc_loss.ctc_loss)

interpolate = publish(interpolation.interpolate)
upsample = publish(interpolation.upsample)
upsample_nearest = publish(interpolation.upsample_nearest)
upsample_bilinear = publish(interpolation.upsample_bilinear)
grid_sample = publish(interpolation.grid_sample)
affine_grid = publish(interpolation.affine_grid)

cross_entropy = publish(loss.cross_entropy)
nll_loss = publish(loss.nll_loss)
mse_loss = publish(loss.mse_loss)
l1_loss = publish(loss.l1_loss)
smooth_l1_loss = publish(loss.smooth_l1_loss)
huber_loss = publish(loss.huber_loss)
binary_cross_entropy = publish(loss.binary_cross_entropy)
binary_cross_entropy_with_logits = publish(loss.binary_cross_entropy_with_logits)
kl_div = publish(loss.kl_div)
poisson_nll_loss = publish(loss.poisson_nll_loss)
gaussian_nll_loss = publish(loss.gaussian_nll_loss)
linear_cross_entropy = publish(loss.linear_cross_entropy)

hinge_embedding_loss = publish(margin_loss.hinge_embedding_loss)
margin_ranking_loss = publish(margin_loss.margin_ranking_loss)
cosine_embedding_loss = publish(margin_loss.cosine_embedding_loss)
multi_margin_loss = publish(margin_loss.multi_margin_loss)
multilabel_margin_loss = publish(margin_loss.multilabel_margin_loss)
multilabel_soft_margin_loss = publish(margin_loss.multilabel_soft_margin_loss)
soft_margin_loss = publish(margin_loss.soft_margin_loss)
triplet_margin_loss = publish(margin_loss.triplet_margin_loss)
triplet_margin_with_distance_loss = publish(margin_loss.triplet_margin_with_distance_loss)

batch_norm = publish(normalization.batch_norm)
layer_norm = publish(normalization.layer_norm)
group_norm = publish(normalization.group_norm)
instance_norm = publish(normalization.instance_norm)
rms_norm = publish(normalization.rms_norm)
local_response_norm = publish(normalization.local_response_norm)
normalize = publish(normalization.normalize)
cosine_similarity = publish(distance.cosine_similarity)
pairwise_distance = publish(distance.pairwise_distance)
pdist = publish(distance.pdist)

max_pool1d = publish(pooling.max_pool1d)
max_pool2d = publish(pooling.max_pool2d)
max_pool3d = publish(pooling.max_pool3d)
avg_pool1d = publish(pooling.avg_pool1d)
avg_pool2d = publish(pooling.avg_pool2d)
avg_pool3d = publish(pooling.avg_pool3d)
adaptive_avg_pool1d = publish(pooling.adaptive_avg_pool1d)
adaptive_avg_pool2d = publish(pooling.adaptive_avg_pool2d)
adaptive_avg_pool3d = publish(pooling.adaptive_avg_pool3d)
adaptive_max_pool1d = publish(pooling.adaptive_max_pool1d)
adaptive_max_pool2d = publish(pooling.adaptive_max_pool2d)
adaptive_max_pool3d = publish(pooling.adaptive_max_pool3d)
max_unpool1d = publish(pooling.max_unpool1d)
max_unpool2d = publish(pooling.max_unpool2d)
max_unpool3d = publish(pooling.max_unpool3d)
max_pool1d_with_indices = publish(pooling.max_pool1d_with_indices)
max_pool2d_with_indices = publish(pooling.max_pool2d_with_indices)
max_pool3d_with_indices = publish(pooling.max_pool3d_with_indices)
lp_pool1d = publish(pooling.lp_pool1d)
lp_pool2d = publish(pooling.lp_pool2d)
lp_pool3d = publish(pooling.lp_pool3d)
adaptive_max_pool1d_with_indices = publish(pooling.adaptive_max_pool1d_with_indices)
adaptive_max_pool2d_with_indices = publish(pooling.adaptive_max_pool2d_with_indices)
adaptive_max_pool3d_with_indices = publish(pooling.adaptive_max_pool3d_with_indices)

pad = publish(padding_and_shuffles.pad)
pixel_shuffle = publish(padding_and_shuffles.pixel_shuffle)
pixel_unshuffle = publish(padding_and_shuffles.pixel_unshuffle)
channel_shuffle = publish(padding_and_shuffles.channel_shuffle)


FUNCTION_NAMES = [
    name
    for name, value in globals().items()
    if isinstance(value, FunctionType) and value not in (publish, _accept_torch_names)
]
"""The names of all functions above."""
