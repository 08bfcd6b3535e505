"""The functions of torch.special. Functions that are one operation and exist only here are defined in this file."""

from lazytensor.functional import pointwise as _pointwise
from lazytensor.functional import pointwise_special as _pointwise_special
from lazytensor.functional import reduction as _reduction
from lazytensor.functional.out_arguments import public
from lazytensor.functional.pointwise_special import binary, unary

digamma = psi = public(_pointwise_special.digamma)
entr = public(
    unary("entr", "Return -x * log(x), the entropy, for each element x: 0 for 0, and -inf for negative elements.")
)
erf = public(_pointwise.erf)
erfc = public(_pointwise_special.erfc)
erfcx = public(
    unary(
        "erfcx",
        "Return exp(x * x) * erfc(x) for each element x.",
        ">>> lt.special.erfcx(lt.tensor([0.0, 1.0, 100.0]))\ntensor([1.0000, 0.4276, 0.0056])",
    )
)
erfinv = public(_pointwise_special.erfinv)
exp2 = public(_pointwise_special.exp2)
expit = public(_pointwise.sigmoid)
expm1 = public(_pointwise.expm1)
gammainc = public(_pointwise_special.igamma)
gammaincc = public(_pointwise_special.igammac)
gammaln = public(_pointwise_special.lgamma)
i0 = public(_pointwise_special.i0)
i0e = public(
    unary(
        "i0e",
        "Return i0(x) * exp(-|x|) for each element x. Unlike `i0`, it does not overflow for large elements.",
        ">>> lt.special.i0e(lt.tensor([0.0, 1.0, 1000.0]))\ntensor([1.0000, 0.4658, 0.0126])",
        op="bessel_i0e",
    )
)
i1 = public(
    unary("i1", "Return the modified Bessel function of the first kind of order 1 of each element.", op="bessel_i1")
)
i1e = public(
    unary(
        "i1e",
        "Return i1(x) * exp(-|x|) for each element x. Unlike `i1`, it does not overflow for large elements.",
        ">>> lt.special.i1e(lt.tensor([0.0, 1.0, 1000.0]))\ntensor([0.0000, 0.2079, 0.0126])",
        op="bessel_i1e",
    )
)
log1p = public(_pointwise.log1p)
log_softmax = public(_reduction.log_softmax, has_out=False)
log_ndtr = public(_pointwise_special.log_ndtr)
logit = public(_pointwise_special.logit)
logsumexp = public(_reduction.logsumexp)
multigammaln = public(_pointwise_special.mvlgamma)
ndtr = public(_pointwise_special.ndtr)
polygamma = public(_pointwise_special.polygamma)
round = public(_pointwise_special.special_round)
sinc = public(_pointwise_special.sinc)
softmax = public(_reduction.softmax, has_out=False)
xlog1py = public(
    binary(
        "xlog1py",
        "Return input * log(1 + other) for each pair of elements. If `input` is 0, it is 0 unless `other` is NaN.",
    )
)
xlogy = public(_pointwise_special.xlogy)

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("public", "unary", "binary")]
