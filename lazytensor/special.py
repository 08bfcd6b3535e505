"""The names of `torch.special`. A new function of mathematics that is one operation is declared here."""

from lazytensor.functions import pointwise as _pointwise
from lazytensor.functions import reductions as _reductions
from lazytensor.functions import special as _special
from lazytensor.functions.outputs import public
from lazytensor.functions.special import binary, unary

digamma = psi = public(_special.digamma)
entr = public(unary("entr", "The entropy -x log(x) of each element: 0 at 0, minus infinity below."))
erf = public(_pointwise.erf)
erfc = public(_special.erfc)
erfinv = public(_special.erfinv)
exp2 = public(_special.exp2)
expit = public(_pointwise.sigmoid)
expm1 = public(_pointwise.expm1)
gammainc = public(_special.igamma)
gammaincc = public(_special.igammac)
gammaln = public(_special.lgamma)
i0 = public(_special.i0)
i1 = public(unary("i1", "The modified Bessel function of the first kind, order 1.", "bessel_i1"))
log1p = public(_pointwise.log1p)
log_softmax = public(_reductions.log_softmax)
logit = public(_special.logit)
logsumexp = public(_reductions.logsumexp)
multigammaln = public(_special.mvlgamma)
polygamma = public(_special.polygamma)
round = public(_pointwise.round)
sinc = public(_special.sinc)
softmax = public(_reductions.softmax)
xlog1py = public(binary("xlog1py", "x * log(1 + y), and 0 where x is 0."))
xlogy = public(_special.xlogy)

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("public", "unary", "binary")]
