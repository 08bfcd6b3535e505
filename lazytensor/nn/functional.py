"""Functions of tensors for models, as the package offers them: with automatic casts, and what the wafer refuses."""

from types import FunctionType

from lazytensor.functions import (
    activations,
    arguments,
    attention,
    convolution,
    ctc,
    interpolation,
    lookup,
    losses,
    margins,
    matrix,
    normalization,
    pooling,
    resampling,
)
from lazytensor.functions.widening import publish

# As they are: what of these wants the half type casts its operands itself, inside of modules too.
linear = arguments.guard_arguments(matrix.linear)
embedding = arguments.guard_arguments(lookup.embedding)
embedding_bag = publish(lookup.embedding_bag)
one_hot = publish(lookup.one_hot)

relu = publish(activations.relu)
relu_ = publish(activations.relu_)
gelu = publish(activations.gelu)
silu = publish(activations.silu)
leaky_relu = publish(activations.leaky_relu)
leaky_relu_ = publish(activations.leaky_relu_)
elu = publish(activations.elu)
elu_ = publish(activations.elu_)
celu = publish(activations.celu)
celu_ = publish(activations.celu_)
selu = publish(activations.selu)
selu_ = publish(activations.selu_)
softplus = publish(activations.softplus)
logsigmoid = publish(activations.logsigmoid)
hardtanh = publish(activations.hardtanh)
hardtanh_ = publish(activations.hardtanh_)
relu6 = publish(activations.relu6)
hardswish = publish(activations.hardswish)
hardsigmoid = publish(activations.hardsigmoid)
hardshrink = publish(activations.hardshrink)
softshrink = publish(activations.softshrink)
softsign = publish(activations.softsign)
tanhshrink = publish(activations.tanhshrink)
threshold = publish(activations.threshold)
threshold_ = publish(activations.threshold_)
mish = publish(activations.mish)
glu = publish(activations.glu)
prelu = publish(activations.prelu)
rrelu = publish(activations.rrelu)
rrelu_ = publish(activations.rrelu_)
sigmoid = publish(activations.sigmoid)
tanh = publish(activations.tanh)
softmax = publish(activations.softmax)
softmin = publish(activations.softmin)
log_softmax = publish(activations.log_softmax)
dropout = publish(activations.dropout)
dropout1d = publish(activations.dropout1d)
dropout2d = publish(activations.dropout2d)
dropout3d = publish(activations.dropout3d)
alpha_dropout = publish(activations.alpha_dropout)
feature_alpha_dropout = publish(activations.feature_alpha_dropout)

scaled_dot_product_attention = publish(attention.scaled_dot_product_attention)
bilinear = publish(attention.bilinear)

conv1d = publish(convolution.conv1d)
conv2d = publish(convolution.conv2d)
conv3d = publish(convolution.conv3d)
conv_transpose1d = publish(convolution.conv_transpose1d)
conv_transpose2d = publish(convolution.conv_transpose2d)
conv_transpose3d = publish(convolution.conv_transpose3d)

ctc_loss = publish(ctc.ctc_loss)

interpolate = publish(interpolation.interpolate)
upsample = publish(interpolation.upsample)
upsample_nearest = publish(interpolation.upsample_nearest)
upsample_bilinear = publish(interpolation.upsample_bilinear)
grid_sample = publish(interpolation.grid_sample)
affine_grid = publish(interpolation.affine_grid)

cross_entropy = publish(losses.cross_entropy)
nll_loss = publish(losses.nll_loss)
mse_loss = publish(losses.mse_loss)
l1_loss = publish(losses.l1_loss)
smooth_l1_loss = publish(losses.smooth_l1_loss)
huber_loss = publish(losses.huber_loss)
binary_cross_entropy = publish(losses.binary_cross_entropy)
binary_cross_entropy_with_logits = publish(losses.binary_cross_entropy_with_logits)
kl_div = publish(losses.kl_div)
poisson_nll_loss = publish(losses.poisson_nll_loss)
gaussian_nll_loss = publish(losses.gaussian_nll_loss)
linear_cross_entropy = publish(losses.linear_cross_entropy)

hinge_embedding_loss = publish(margins.hinge_embedding_loss)
margin_ranking_loss = publish(margins.margin_ranking_loss)
cosine_embedding_loss = publish(margins.cosine_embedding_loss)
multi_margin_loss = publish(margins.multi_margin_loss)
multilabel_margin_loss = publish(margins.multilabel_margin_loss)
multilabel_soft_margin_loss = publish(margins.multilabel_soft_margin_loss)
soft_margin_loss = publish(margins.soft_margin_loss)
triplet_margin_loss = publish(margins.triplet_margin_loss)
triplet_margin_with_distance_loss = publish(margins.triplet_margin_with_distance_loss)

batch_norm = publish(normalization.batch_norm)
layer_norm = publish(normalization.layer_norm)
group_norm = publish(normalization.group_norm)
instance_norm = publish(normalization.instance_norm)
rms_norm = publish(normalization.rms_norm)
local_response_norm = publish(normalization.local_response_norm)
normalize = publish(normalization.normalize)
cosine_similarity = publish(normalization.cosine_similarity)
pairwise_distance = publish(normalization.pairwise_distance)
pdist = publish(normalization.pdist)

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

pad = publish(resampling.pad)
pixel_shuffle = publish(resampling.pixel_shuffle)
pixel_unshuffle = publish(resampling.pixel_unshuffle)
channel_shuffle = publish(resampling.channel_shuffle)


FUNCTION_NAMES = [name for name, value in globals().items() if isinstance(value, FunctionType) and value is not publish]
"""Every function above."""
