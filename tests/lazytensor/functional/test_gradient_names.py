"""The names of gradient functions are PyTorch's, of 2.13, which recorded this table."""

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.core.tensor import Tensor
from lazytensor.functional.gradient_names import GRADIENT_NAMES
from lazytensor.nn import functional as F

NAMES = """
Abs: abs(x) | x.abs() | x.absolute()
Acos: p.acos()
Acosh: (p+1).acosh()
AdaptiveAvgPool2D: F.interpolate(c,scale_factor=0.5,mode='area') | F.adaptive_avg_pool2d(c,2)
AdaptiveAvgPool3D: F.adaptive_avg_pool3d(c3,2)
AdaptiveMaxPool2D: F.adaptive_max_pool2d(c,2)
AdaptiveMaxPool3D: F.adaptive_max_pool3d(c3,2)
Add: x+w | x+1 | 1+x | x.add(w,alpha=2) | F.alpha_dropout(x,0.5,True) | F.cross_entropy(x,tg,label_smoothing=.1)
Addbmm: lt.addbmm(s[:4,:4],b,b.mT)
Addcdiv: x.addcdiv(x,p)
Addcmul: x.addcmul(x,w) | x.clone().addcmul_(x,w)
Addmm: lt.addmm(s[:4,:4],x,w.T) | F.linear(x,w,v[:4]) | nn.Linear(6,3)(x)
Addmv: lt.addmv(v[:4],x,v)
Addr: lt.addr(x,v[:4],u)
AffineGridGenerator: F.affine_grid(lt.randn(2,2,3,requires_grad=True),(2,3,4,4),align_corners=False)
Amax: x.amax() | x.amax(0)
Amin: x.amin(0)
Aminmax: x.aminmax()[0]
Angle: x.angle()
AsStrided: x.as_strided((2,2),(1,1))
Asin: p.asin()
Asinh: x.asinh()
Atan2: lt.atan2(x,w) | x.arctan2(w)
Atan: x.atan()
Atanh: p.atanh()
AvgPool2D: F.avg_pool2d(c,2)
AvgPool3D: F.avg_pool3d(c3,2)
Baddbmm: lt.baddbmm(b@b.mT,b,b.mT)
BinaryCrossEntropy: F.binary_cross_entropy(p,lt.rand(4,6))
BinaryCrossEntropyWithLogits: F.binary_cross_entropy_with_logits(x,lt.rand(4,6))
BlockDiag: lt.block_diag(x,w)
Bmm: lt.bmm(b,b.mT)
Cat: lt.cat([x,w]) | lt.hstack([x,w]) | lt.vstack([x,w]) | lt.dstack([x,w]) | lt.column_stack([x,w]) | lt.cat([x])
Cdist: lt.cdist(x,w)
Ceil: x.ceil()
Celu: F.celu(x)
Clamp: x.clamp(w,None)
ClampBackward1: x.clamp(0,1) | x.clamp(min=0) | x.clamp(max=0) | x.clip(0,1) | x.clone().clamp_(0)
ClampMax: x.clamp_max(0)
ClampMin: x.clamp_min(0) | x.clone().clamp_min_(0)
Clone: x.T.contiguous() | x.clone()
ConstantPadNd: F.pad(x,(1,1))
Convolution: F.conv1d(c1,lt.randn(4,3,3)) | F.conv2d(c,lt.randn(4,3,3,3)) |
    F.conv2d(c,lt.randn(4,3,3,3),lt.randn(4)) | F.conv3d(c3,lt.randn(4,3,3,3,3)) |
    F.conv_transpose2d(c,lt.randn(3,4,3,3)) | F.conv_transpose1d(c1,lt.randn(3,4,3),lt.randn(4))
Copysign: x.copysign(w)
CopysignBackward1: x.copysign(1.)
Cos: x.cos()
Cosh: x.cosh()
Cummax: x.cummax(0)[0]
Cummin: x.cummin(0)[0]
Cumprod: x.cumprod(0)
Cumsum: x.cumsum(0) | x.clone().cumsum_(0)
Deg2Rad: x.deg2rad()
DiagEmbed: lt.diag(v) | lt.diag_embed(x)
Diagonal: x.diagonal()
Digamma: p.digamma()
Dist: x.dist(w)
Div: x/2 | x/w | x.nanmean() | x.true_divide(w) | x.divide(w) | F.softsign(x)
DivBackward1: F.cross_entropy(x,p)
DivBackward2: x.div(w,rounding_mode='floor') | x.div(2,rounding_mode='trunc')
Dot: v@u | v.dot(u)
Elu: F.elu(x) | F.selu(x)
Embedding: F.embedding(idx,x) | nn.Embedding(5,3)(idx)
EmbeddingBag: F.embedding_bag(idx[None],x) | nn.EmbeddingBag(5,3)(idx[None])
Erf: x.erf()
Erfc: x.erfc() | lt.erfc(x)
Erfinv: p.erfinv()
Exp2: x.exp2()
Exp: x.exp() | x.clone().exp_()
Expand: x.expand(2,4,6) | x.broadcast_to((2,4,6)) | lt.meshgrid(v,u,indexing='ij')[0]
Expm1: x.expm1()
FillBackward2: x.clone().fill_(1)
Flip: x.flip(0) | x.fliplr()
Floor: x.floor()
Fmax: lt.fmax(x,w)
Fmod: x.fmod(2)
FmodBackward1: x.fmod(w)
Frac: x.frac()
Frexp: x.frexp()[0]
Gather: x.gather(0,idx[None])
Gelu: F.gelu(x) | F.gelu(x,approximate='tanh')
Glu: F.glu(x)
GridSampler2D: F.grid_sample(c,lt.zeros(2,3,3,2),align_corners=False)
Hardshrink: F.hardshrink(x)
Hardsigmoid: F.hardsigmoid(x)
Hardswish: F.hardswish(x)
Hardtanh: F.relu6(x) | F.hardtanh(x)
HuberLoss: F.huber_loss(x,w)
Hypot: lt.hypot(x,w)
I0: x.i0()
Igamma: x.igamma(p)
IndexAdd: x.index_add(0,idx,w[:2]) | x.clone().index_add_(0,idx,w[:2])
Index: x[idx] | x[msk] | x[idx,idx]
IndexCopy: x.index_copy(0,idx,w[:2])
IndexFill: x.index_fill(0,idx,1.)
IndexPut: x.index_put((idx,),w[:2])
IndexSelect: x.index_select(0,idx)
Kthvalue: x.kthvalue(1)[0]
Ldexp: x.ldexp(w)
LeakyRelu: F.leaky_relu(x)
Lerp: x.lerp(w,0.5) | x.clone().lerp_(w,.5)
LerpBackward1: x.lerp(w,p)
Lgamma: p.lgamma()
LinalgCross: lt.cross(s[:3,:3],s[:3,2:],0)
LinalgDet: lt.linalg.det(s)
LinalgEigh: lt.linalg.eigh(s@s.T)[0] | lt.linalg.eigvalsh(s@s.T)
LinalgInvEx: lt.linalg.inv(s)
LinalgMatrixExp: lt.matrix_exp(s)
LinalgPinv: lt.linalg.pinv(s)
LinalgQr: lt.linalg.qr(s)[0]
LinalgSlogdet: lt.linalg.slogdet(s)[1]
LinalgSolveEx: lt.linalg.solve(s,s)
LinalgSolveTriangular: lt.linalg.solve_triangular(s,s,upper=True)
LinalgSvd: lt.linalg.svd(s)[1] | lt.linalg.svdvals(s)
LinalgVectorNorm: x.norm() | x.norm(2,0) | x.norm(1) | lt.norm(x) | lt.linalg.norm(x) | lt.linalg.vector_norm(x)
Log10: p.log10()
Log1P: p.log1p()
Log2: p.log2()
Log: p.log()
LogSigmoid: F.logsigmoid(x)
LogSoftmax: F.log_softmax(x,1) | x.log_softmax(0)
Logaddexp2: x.logaddexp2(w)
Logaddexp: x.logaddexp(w)
Logcumsumexp: x.logcumsumexp(0)
Logit: p.logit()
Logsumexp: x.logsumexp(0)
MaskedFill: x.masked_fill(msk,0.) | x.clone().masked_fill_(msk,0)
MaskedSelect: x.masked_select(msk)
Max: x.max(0)[0]
MaxBackward1: x.max()
MaxPool2DWithIndices: F.max_pool2d(c,2) | nn.MaxPool2d(2)(c)
MaxPool3DWithIndices: F.max_pool3d(c3,2)
Maximum: x.max(w) | lt.maximum(x,w)
Mean: x.mean() | F.l1_loss(x,w) | F.kl_div(x,p) | F.poisson_nll_loss(x,p) | F.gaussian_nll_loss(x,w,p) |
    F.hinge_embedding_loss(x,lt.ones(4,6))
MeanBackward1: x.mean(0) | x.mean((0,1)) | F.adaptive_avg_pool2d(c,1)
Median: x.median()
MedianBackward1: x.median(0)[0]
Min: x.min(0).values
MinBackward1: x.min()
Minimum: lt.minimum(x,w)
Mish: F.mish(x)
Mm: x@w.T | x.mm(w.T) | lt.linalg.matrix_power(s,2) | lt.linalg.matrix_power(s,3) | F.linear(x,w) |
    nn.Linear(6,3,bias=False)(x)
Mode: x.mode(0)[0]
MseLoss: F.mse_loss(x,w) | F.mse_loss(x,w,reduction='none') | nn.MSELoss()(x,w)
Mul: x*2 | x*w | 2*x | 2/x | x.mul(2) | x.multiply(w)
MultiMarginLoss: F.multi_margin_loss(x,tg)
MultilabelMarginLoss: F.multilabel_margin_loss(x,lt.zeros(4,6).long())
Mv: x@v | lt.mv(x,v)
Mvlgamma: p.mvlgamma(1)
NanToNum: x.nan_to_num()
Nanmedian: x.nanmedian()
Nansum: x.nansum() | x.nansum(0)
NativeBatchNorm: F.batch_norm(x,None,None,training=True) | F.batch_norm(c,lt.zeros(3),lt.ones(3)) |
    nn.BatchNorm2d(3)(c)
NativeGroupNorm: F.group_norm(c,3) | nn.GroupNorm(3,3)(c)
NativeLayerNorm: F.layer_norm(x,(6,)) | F.layer_norm(x,(6,),v,u) | nn.LayerNorm(6)(x) |
    nn.TransformerEncoderLayer(4,2,8)(c[0,:,:,:4])
Neg: -x | x.neg() | x.negative() | x.clone().neg_()
Nextafter: lt.nextafter(x,w)
NllLoss: F.cross_entropy(x,tg) | F.nll_loss(x,tg) | F.nll_loss(x,tg,reduction='none') | nn.CrossEntropyLoss()(x,tg)
NormBackward1: F.pairwise_distance(x,w)
Pdist: F.pdist(x)
Permute: x.T | x.permute(1,0) | x.movedim(0,1) | x.moveaxis(0,1)
PixelShuffle: F.pixel_shuffle(lt.randn(1,4,2,2,requires_grad=True),2)
PixelUnshuffle: F.pixel_unshuffle(c,2)
Polygamma: lt.polygamma(1,p)
Pow: x**2 | x**3 | x**0.5 | x**-1 | x.square() | x.float_power(2)
PowBackward1: x**w.abs() | x.pow(w)
PowBackward2: 2**x | lt.pow(2,x)
PreluKernel: F.prelu(x,v[:6].abs()) | nn.PReLU()(x)
Prod: x.prod()
ProdBackward1: x.prod(0)
Rad2Deg: x.rad2deg()
Reciprocal: x.reciprocal()
ReflectionPad1D: F.pad(x,(1,1),mode='reflect')
Relu: x.relu() | F.relu(x) | nn.ReLU()(x) | x.clone().relu_() | F.relu(x.clone(),inplace=True)
Remainder: x%2 | x.remainder(2)
RemainderBackward1: x%w
Renorm: x.renorm(2,0,1.)
Repeat: x.repeat(2,1) | x.tile(2)
ReplicationPad2D: F.pad(c,(1,1,1,1),mode='replicate')
Roll: x.roll(1)
Rot90: x.rot90()
Round: x.round() | x.clone().round_()
RoundBackward1: x.round(decimals=1)
RreluWithNoise: F.rrelu(x) | F.rrelu(x,training=True)
Rsqrt: p.rsqrt()
RsubBackward1: 1-x
ScaledDotProductFlashAttentionForCpu: F.scaled_dot_product_attention(q,q,q) |
    F.scaled_dot_product_attention(q,q,q,is_causal=True)
ScatterAdd: x.scatter_add(0,idx[None],w)
Scatter: x.scatter(0,idx[None],w)
ScatterBackward1: x.scatter(0,idx[None],1.) | x.clone().scatter_(0,idx[None],1.)
Select: x[0] | x[:,1] | x[0,0] | x.select(0,1)
Sgn: x.sgn()
Sigmoid: x.sigmoid() | x.clone().sigmoid_()
Sign: x.sign()
Silu: F.silu(x)
Sin: x.sin()
Sinc: x.sinc()
Sinh: x.sinh()
Slice: x[1:3] | x[::2] | x.narrow(0,0,2) | x.tensor_split(2)[0] | lt.hsplit(x,2)[0]
SmoothL1Loss: F.smooth_l1_loss(x,w)
SoftMarginLoss: F.soft_margin_loss(x,lt.ones(4,6))
Softmax: F.softmax(x,1) | F.softmin(x,1) | x.softmax(0) | nn.Softmax(1)(x)
Softplus: F.softplus(x)
Softshrink: F.softshrink(x)
Sort: x.sort()[0]
SortBackward1: lt.sort(x,stable=True)[0]
SpecialEntr: lt.special.entr(p)
SpecialI0E: lt.special.i0e(x)
SpecialI1: lt.special.i1(x)
SpecialI1E: lt.special.i1e(x)
SpecialXlog1Py: lt.special.xlog1py(x,p)
Split: x.chunk(2)[0] | x.split(2)[0]
SplitWithSizes: x.split([1,3])[1]
Sqrt: p.sqrt()
Squeeze: x.squeeze()
SqueezeBackward1: x.unsqueeze(0).squeeze(0) | x.squeeze(0) | F.max_pool1d(c1,2) | F.avg_pool1d(c1,2) |
    F.adaptive_avg_pool1d(c1,2) | F.adaptive_max_pool1d(c1,2)
SqueezeBackward2: x.unsqueeze(0).squeeze((0,))
SqueezeBackward4: v@x.T
Stack: lt.stack([x,w]) | lt.cartesian_prod(v,u)
Std: x.std() | x.std(0)
StdMean: lt.std_mean(x)[0]
Sub: x-w | x-1 | x.diff() | x.sub(w,alpha=2) | x.sub(1) | x.subtract(w)
Sum: x.sum()
SumBackward1: x.sum(0) | x.sum(0,keepdim=True) | x.sum((0,1)) | F.cosine_similarity(x,w)
T: x.t()
Take: x.take(idx)
Tan: x.tan()
Tanh: x.tanh() | nn.RNNCell(6,3)(x) | x.clone().tanh_()
Threshold: F.threshold(x,0.,1.)
ToCopy: x.double() | x.half() | x.to(lt.bfloat16) | x.type(lt.float64)
Topk: x.topk(2)[0]
Trace: x.trace()
Transpose: x.mT | x.H | x.transpose(0,1) | x.swapaxes(0,1)
Tril: x.tril() | x.clone().tril_()
Triu: x.triu()
Trunc: x.trunc() | x.fix()
Unbind: x.unbind()[0]
Unfold: x.unfold(0,2,1)
UnsafeView: b@b.mT | b@s | lt.kron(x,w) | F.linear(b,s)
Unsqueeze: x.unsqueeze(0)
UpsampleBicubic2D: F.interpolate(c,scale_factor=2,mode='bicubic')
UpsampleBilinear2D: F.interpolate(c,scale_factor=2,mode='bilinear')
UpsampleLinear1D: F.interpolate(c1,scale_factor=2,mode='linear')
UpsampleNearest1D: F.interpolate(c1,scale_factor=2)
UpsampleNearest2D: F.interpolate(c,scale_factor=2) | nn.Upsample(scale_factor=2)(c)
UpsampleNearest3D: F.interpolate(c3,scale_factor=2)
UpsampleTrilinear3D: F.interpolate(c3,scale_factor=2,mode='trilinear')
Var: x.var() | x.var(0)
VarMean: lt.var_mean(x)[1]
Vdot: lt.vdot(v,u)
View: x.view(24) | x.reshape(24) | x.flatten() | x.ravel() | x.unflatten(1,(2,3)) | x.view_as(w)
Where: lt.where(msk,x,w) | lt.where(msk,x,0.) | lt.logdet(s@s.T)
Xlogy: p.xlogy(w.abs())
XlogyBackward1: lt.xlogy(2.,p)
Zero: x.clone().zero_()
torch::autograd::CopySlices: F.pad(x,(1,1),mode='circular')
"""
"""A name, by default followed by "Backward0", and the expressions whose result has it."""


def rows():
    for line in NAMES.replace("\n    ", " ").strip().splitlines():
        name, _, expressions = line.partition(": ")
        full = name if "Backward" in name or "::" in name else f"{name}Backward0"
        yield from ((full, e.strip()) for e in expressions.split(" | "))


@pytest.fixture(scope="module")
def operands():
    lt.manual_seed(0)
    shapes = {"x": (4, 6), "w": (4, 6), "v": (6,), "u": (6,), "s": (5, 5), "b": (2, 4, 5)}
    shapes |= {"c": (2, 3, 8, 8), "c1": (2, 3, 8), "c3": (2, 3, 4, 4, 4), "q": (2, 2, 4, 8)}
    values = {name: lt.randn(*shape, requires_grad=True) for name, shape in shapes.items()}
    mask = lt.zeros(4, 6).bool()
    mask[0] = True
    values |= {"p": lt.rand(4, 6, requires_grad=True), "msk": mask, "idx": lt.tensor([0, 2])}
    return values | {"tg": lt.tensor([0, 1, 2, 3]), "lt": lt, "F": F, "nn": nn}


@pytest.mark.parametrize("name, expression", [*rows()], ids=lambda text: text)
def test_result_names_its_function_as_pytorch_does(name, expression, operands):
    result = eval(expression, dict(operands))
    assert result.grad_fn.name() == name
    assert f"grad_fn=<{name.rpartition('::')[2]}>)" in repr(result)


def test_table_has_only_names_of_public_functions():
    spaces = (lt, F, lt.linalg, lt.special, Tensor)
    unknown = [name for name in GRADIENT_NAMES if not any(hasattr(space, name) for space in spaces)]
    assert unknown == []


def test_operand_that_is_returned_keeps_its_name():
    x = lt.ones(3, requires_grad=True) * 2
    assert x.t().grad_fn.name() == "MulBackward0"
    assert x.squeeze().grad_fn.name() in ("MulBackward0", "SqueezeBackward0")
