"""The names of `torch.special`. A new function of mathematics that is one operation is declared here."""

from lazytensor.functional import pointwise as _pointwise
from lazytensor.functional import pointwise_special as _elementary
from lazytensor.functional import reduction as _reductions
from lazytensor.functional.out_arguments import public
from lazytensor.functional.pointwise_special import binary, unary

digamma = psi = public(_elementary.digamma)
entr = public(unary("entr", "The entropy -x log(x) of each element: 0 at 0, minus infinity below."))
erf = public(_pointwise.erf)
erfc = public(_elementary.erfc)
erfinv = public(_elementary.erfinv)
exp2 = public(_elementary.exp2)
expit = public(_pointwise.sigmoid)
expm1 = public(_pointwise.expm1)
gammainc = public(_elementary.igamma)
gammaincc = public(_elementary.igammac)
gammaln = public(_elementary.lgamma)
i0 = public(_elementary.i0)
i1 = public(unary("i1", "The modified Bessel function of the first kind, order 1.", op="bessel_i1"))
log1p = public(_pointwise.log1p)
log_softmax = public(_reductions.log_softmax)
logit = public(_elementary.logit)
logsumexp = public(_reductions.logsumexp)
multigammaln = public(_elementary.mvlgamma)
polygamma = public(_elementary.polygamma)
round = public(_elementary.special_round)
sinc = public(_elementary.sinc)
softmax = public(_reductions.softmax)
xlog1py = public(binary("xlog1py", "x * log(1 + y), and 0 where x is 0."))
xlogy = public(_elementary.xlogy)

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("public", "unary", "binary")]
