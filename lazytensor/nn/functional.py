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
from lazytensor.functions.widening import published

# As they are: what of these wants the half type casts its operands itself, inside of modules too.
linear = arguments.guarded(matrix.linear)
embedding = arguments.guarded(lookup.embedding)
embedding_bag = published(lookup.embedding_bag)
one_hot = published(lookup.one_hot)

relu = published(activations.relu)
relu_ = published(activations.relu_)
gelu = published(activations.gelu)
silu = published(activations.silu)
leaky_relu = published(activations.leaky_relu)
leaky_relu_ = published(activations.leaky_relu_)
elu = published(activations.elu)
elu_ = published(activations.elu_)
celu = published(activations.celu)
celu_ = published(activations.celu_)
selu = published(activations.selu)
selu_ = published(activations.selu_)
softplus = published(activations.softplus)
logsigmoid = published(activations.logsigmoid)
hardtanh = published(activations.hardtanh)
hardtanh_ = published(activations.hardtanh_)
relu6 = published(activations.relu6)
hardswish = published(activations.hardswish)
hardsigmoid = published(activations.hardsigmoid)
hardshrink = published(activations.hardshrink)
softshrink = published(activations.softshrink)
softsign = published(activations.softsign)
tanhshrink = published(activations.tanhshrink)
threshold = published(activations.threshold)
threshold_ = published(activations.threshold_)
mish = published(activations.mish)
glu = published(activations.glu)
prelu = published(activations.prelu)
rrelu = published(activations.rrelu)
rrelu_ = published(activations.rrelu_)
sigmoid = published(activations.sigmoid)
tanh = published(activations.tanh)
softmax = published(activations.softmax)
softmin = published(activations.softmin)
log_softmax = published(activations.log_softmax)
dropout = published(activations.dropout)
dropout1d = published(activations.dropout1d)
dropout2d = published(activations.dropout2d)
dropout3d = published(activations.dropout3d)
alpha_dropout = published(activations.alpha_dropout)
feature_alpha_dropout = published(activations.feature_alpha_dropout)

scaled_dot_product_attention = published(attention.scaled_dot_product_attention)
bilinear = published(attention.bilinear)

conv1d = published(convolution.conv1d)
conv2d = published(convolution.conv2d)
conv3d = published(convolution.conv3d)
conv_transpose1d = published(convolution.conv_transpose1d)
conv_transpose2d = published(convolution.conv_transpose2d)
conv_transpose3d = published(convolution.conv_transpose3d)

ctc_loss = published(ctc.ctc_loss)

interpolate = published(interpolation.interpolate)
upsample = published(interpolation.upsample)
upsample_nearest = published(interpolation.upsample_nearest)
upsample_bilinear = published(interpolation.upsample_bilinear)
grid_sample = published(interpolation.grid_sample)
affine_grid = published(interpolation.affine_grid)

cross_entropy = published(losses.cross_entropy)
nll_loss = published(losses.nll_loss)
mse_loss = published(losses.mse_loss)
l1_loss = published(losses.l1_loss)
smooth_l1_loss = published(losses.smooth_l1_loss)
huber_loss = published(losses.huber_loss)
binary_cross_entropy = published(losses.binary_cross_entropy)
binary_cross_entropy_with_logits = published(losses.binary_cross_entropy_with_logits)
kl_div = published(losses.kl_div)
poisson_nll_loss = published(losses.poisson_nll_loss)
gaussian_nll_loss = published(losses.gaussian_nll_loss)
linear_cross_entropy = published(losses.linear_cross_entropy)

hinge_embedding_loss = published(margins.hinge_embedding_loss)
margin_ranking_loss = published(margins.margin_ranking_loss)
cosine_embedding_loss = published(margins.cosine_embedding_loss)
multi_margin_loss = published(margins.multi_margin_loss)
multilabel_margin_loss = published(margins.multilabel_margin_loss)
multilabel_soft_margin_loss = published(margins.multilabel_soft_margin_loss)
soft_margin_loss = published(margins.soft_margin_loss)
triplet_margin_loss = published(margins.triplet_margin_loss)
triplet_margin_with_distance_loss = published(margins.triplet_margin_with_distance_loss)

batch_norm = published(normalization.batch_norm)
layer_norm = published(normalization.layer_norm)
group_norm = published(normalization.group_norm)
instance_norm = published(normalization.instance_norm)
rms_norm = published(normalization.rms_norm)
local_response_norm = published(normalization.local_response_norm)
normalize = published(normalization.normalize)
cosine_similarity = published(normalization.cosine_similarity)
pairwise_distance = published(normalization.pairwise_distance)
pdist = published(normalization.pdist)

max_pool1d = published(pooling.max_pool1d)
max_pool2d = published(pooling.max_pool2d)
max_pool3d = published(pooling.max_pool3d)
avg_pool1d = published(pooling.avg_pool1d)
avg_pool2d = published(pooling.avg_pool2d)
avg_pool3d = published(pooling.avg_pool3d)
adaptive_avg_pool1d = published(pooling.adaptive_avg_pool1d)
adaptive_avg_pool2d = published(pooling.adaptive_avg_pool2d)
adaptive_avg_pool3d = published(pooling.adaptive_avg_pool3d)
adaptive_max_pool1d = published(pooling.adaptive_max_pool1d)
adaptive_max_pool2d = published(pooling.adaptive_max_pool2d)
adaptive_max_pool3d = published(pooling.adaptive_max_pool3d)
max_unpool1d = published(pooling.max_unpool1d)
max_unpool2d = published(pooling.max_unpool2d)
max_unpool3d = published(pooling.max_unpool3d)
max_pool1d_with_indices = published(pooling.max_pool1d_with_indices)
max_pool2d_with_indices = published(pooling.max_pool2d_with_indices)
max_pool3d_with_indices = published(pooling.max_pool3d_with_indices)
lp_pool1d = published(pooling.lp_pool1d)
lp_pool2d = published(pooling.lp_pool2d)
lp_pool3d = published(pooling.lp_pool3d)
adaptive_max_pool1d_with_indices = published(pooling.adaptive_max_pool1d_with_indices)
adaptive_max_pool2d_with_indices = published(pooling.adaptive_max_pool2d_with_indices)
adaptive_max_pool3d_with_indices = published(pooling.adaptive_max_pool3d_with_indices)

pad = published(resampling.pad)
pixel_shuffle = published(resampling.pixel_shuffle)
pixel_unshuffle = published(resampling.pixel_unshuffle)
channel_shuffle = published(resampling.channel_shuffle)


NAMES = [name for name, value in globals().items() if isinstance(value, FunctionType) and value is not published]
"""Every function above."""
