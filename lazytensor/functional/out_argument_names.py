"""The public functions of which PyTorch refuses `out=`. The others accept it."""

FUNCTIONS_WITHOUT_OUT = frozenset(
    """
    adaptive_avg_pool1d adaptive_max_pool1d allclose alpha_dropout argwhere as_strided as_strided_scatter
    as_tensor asarray atleast_1d atleast_2d atleast_3d avg_pool1d batch_norm binary_cross_entropy_with_logits bincount
    block_diag broadcast_tensors broadcast_to cartesian_prod cdist celu channel_shuffle chunk clone combinations conj
    constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d corrcoef
    cosine_embedding_loss cosine_similarity count_nonzero cov cumulative_trapezoid diag_embed diagflat diagonal
    diagonal_scatter dist dropout dsplit einsum empty_like equal feature_alpha_dropout feature_dropout fill flatten
    flip fliplr flipud from_dlpack full_like gradient grid_sampler_2d group_norm hinge_embedding_loss hsplit
    index_fill index_put instance_norm isclose isfinite isinf isnan isreal kl_div layer_norm logdet
    margin_ranking_loss masked_fill masked_scatter matrix_exp max_pool1d max_pool1d_with_indices max_pool2d max_pool3d
    meshgrid movedim narrow native_group_norm native_layer_norm ones_like pairwise_distance permute pinverse
    pixel_shuffle pixel_unshuffle poisson_nll_loss positive prelu put rand_like randn_like ravel relu
    repeat_interleave reshape rms_norm roll rot90 rrelu rsub scalar_tensor select select_scatter selu split
    split_with_sizes squeeze std_mean swapaxes swapdims t tensor tensor_split tile transpose trapezoid tril_indices
    triplet_margin_loss triu_indices unbind unflatten unique unique_consecutive unravel_index unsafe_chunk
    unsafe_split unsqueeze vander var_mean vsplit zeros_like
    """.split()
)
"""Functions without `out=` in PyTorch 2.13, by their names."""

PARAMETERS_REQUIRED_BY_OUT = {"argsort": "stable", "median": "dim", "nanmedian": "dim", "prod": "dim", "sum": "dim"}
"""Functions that accept `out=` only in a call with this parameter. `dim` may be the second positional argument."""
