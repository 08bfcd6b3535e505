"""The update rule of each optimizer, written once: for steps that compute at once, and for steps that are recorded.

A rule is a function of the settings of a group, a parameter, its gradient and its state. It returns the new parameter,
and puts new state into the dict that it gets; it changes no array in place. Parameter, gradient and state are NumPy
arrays or tensors, see `elementwise`. The "step" of the state counts the update that the rule computes, from 1.

PyTorch and the vendor compute the same updates with other roundings, and in some rules with another formula. Where they
differ the rule has an argument `system`, and says how.
"""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.optim.elementwise import (
    Array,
    absolute,
    add_scaled,
    as_float32,
    as_type_of,
    at_least,
    clipped,
    descended,
    is_on,
    larger,
    power,
    quotient,
    scaled,
    sign,
    sqrt,
    where,
)
from lazytensor.optim.settings import Settings, complement, folded_complement

State = dict[str, Any]
"""The state of one parameter by the names that state dicts have: arrays, and counts as numbers or 0-d tensors."""
System = Literal["PyTorch", "Cerebras"]

NADAM_WARMUP = 0.96
"""How fast the momentum of NAdam approaches beta1 (Dozat 2016)."""
LAMB_LONGEST = 10.0
"""The norm up to which Lamb counts the weights of a layer."""


class Rule(Protocol):
    """What updates one parameter."""

    def __call__(self, settings: Settings, p: Array, g: Array, s: State, /) -> Array:
        """Return the new value of the parameter `p` with the gradient `g`, and put new state into `s`."""


def _ascending(settings: Settings, g: Array) -> Array:
    return -g if settings.get("maximize") else g


def _directed(settings: Settings, p: Array, g: Array) -> Array:
    """Return the gradient, or its opposite to maximize, with the decay of the weights added."""
    # With maximize the decay still shrinks: it is added after the sign is turned.
    g = _ascending(settings, g)
    return g + p * settings["weight_decay"] if is_on(settings["weight_decay"]) else g


def _decayed(settings: Settings, p: Array, g: Array) -> tuple[Array, Array]:
    """Return parameter and gradient after weight decay: a decoupled decay shrinks the parameter itself."""
    if not settings.get("decoupled_weight_decay"):
        return p, _directed(settings, p, g)
    # Times the rate, as in PyTorch's AdamW: a schedule lowers the decay too. The paper has them apart.
    rate = settings["lr"] * settings["weight_decay"]
    return p * (1 - rate) if rate else p, _ascending(settings, g)


def _mean(mean: Array, g: Array, beta: float, system: System, share: Callable[[float], float] = complement) -> Array:
    """Return the mean of gradients after `g`.

    PyTorch computes mean + (g - mean) * (1 - beta), and the vendor mean * beta + g * (1 - beta), which rounds
    otherwise. `share` is the vendor's 1 - beta, in float64 or in float32.
    """
    return mean + (g - mean) * (1 - beta) if system == "PyTorch" else mean * beta + g * share(beta)


def _square_mean(square: Array, g: Array, beta: float, share: Callable[[float], float] = complement) -> Array:
    """Return the mean of squared gradients after `g`."""
    return square * beta + g * g * share(beta)


def sgd(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """p - lr * d, where d is the gradient or a momentum buffer: momentum * buffer + (1 - dampening) * gradient.

    PyTorch's buffer begins as the first gradient, undampened. The vendor's exists before the first step, as zeros.
    """
    d = _directed(settings, p, g)
    momentum = settings["momentum"]
    if momentum:
        buffer = d
        if "momentum_buffer" in s:
            buffer = add_scaled(s["momentum_buffer"] * momentum, d, 1 - settings["dampening"])
        s["momentum_buffer"] = buffer
        # The buffer has no rate in it, unlike Sutskever's: a new rate acts at once on everything that the buffer holds.
        d = d + buffer * momentum if settings["nesterov"] else buffer
    return descended(p, d, settings["lr"])


def adam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Moments with bias correction (Kingma and Ba 2015), and AdamW (Loshchilov and Hutter 2019).

    PyTorch corrects the root of the second moment before eps is added, so that eps weighs the same in every step, and
    counts steps. The vendor adds eps first, and keeps the powers of the betas, one step ahead; without them (AdamW with
    correct_bias=False, as BERT was trained) the first steps are too long by the missing correction.
    Decoupled decay shrinks PyTorch's parameter before the step, and is a part of the vendor's step.
    """
    beta1, beta2 = settings["betas"]
    if system == "PyTorch":
        p, g = _decayed(settings, p, g)
        mean = _mean(s["exp_avg"], g, beta1, system)
    else:
        if is_on(settings["l2_regularization_rate"]):
            g = g + p * settings["l2_regularization_rate"]
        mean = add_scaled(s["exp_avg"] * beta1, g, complement(beta1))
    square = _square_mean(s["exp_avg_sq"], g, beta2)
    s["exp_avg"], s["exp_avg_sq"] = mean, square
    if settings["amsgrad"]:
        # The largest before its correction: the correction of this step meets a maximum of an earlier one.
        s["max_exp_avg_sq"] = square = larger(s["max_exp_avg_sq"], square)
    if system == "PyTorch":
        step = s["step"]
        divisor = sqrt(square) / sqrt(1 - beta2**step) + settings["eps"]
        # The correction of the mean goes to the rate: one product less, and PyTorch's rounding.
        return p - settings["lr"] / (1 - beta1**step) * (mean / divisor)
    d = mean / (sqrt(square) + settings["eps"])
    if "beta1_power" in s:
        power1, power2 = s["beta1_power"], s["beta2_power"]
        d = d * (sqrt(1.0 - power2) / (1.0 - power1))
        s["beta1_power"], s["beta2_power"] = power1 * beta1, power2 * beta2
    if is_on(settings["weight_decay"]):
        # Past the moments but within the rate.
        d = d + p * settings["weight_decay"]
    return p - d * settings["lr"]


def adamax(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Adam with the largest gradient so far, which fades, in place of the second moment (Kingma and Ba 2015).

    A maximum is not drawn to zero as a mean is, so only the mean is corrected: PyTorch corrects the rate, and the
    vendor divides the step, by the power of beta1 that it keeps one step ahead.
    """
    g = _directed(settings, p, g)
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system)
    # eps goes to the gradient, so that the divisor is never 0, and fades with the maximum.
    s["exp_inf"] = largest = larger(s["exp_inf"] * beta2, absolute(g) + settings["eps"])
    if system == "PyTorch":
        return p - settings["lr"] / (1 - beta1 ** s["step"]) * (mean / largest)
    ahead = s["beta1_power"]
    s["beta1_power"] = ahead * beta1
    # Two divisions and a product, as the original: each rounds.
    return p - mean / largest / (1.0 - ahead) * settings["lr"]


def nadam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Adam with Nesterov's look-ahead and a momentum that warms up (Dozat 2016).

    PyTorch updates the parameter by the gradient and then by the mean. The vendor adds both first, and its mean counts
    the momentum of this step twice, where Dozat has the product of the momenta times the next one.
    """
    step = s["step"]
    # The momenta of this step and of the next, which Nesterov's look-ahead already uses.
    mu, after = _warmed_momentum(settings, step), _warmed_momentum(settings, step + 1.0)
    s["mu_product"] = product = as_float32(s["mu_product"] * mu)
    p, g = _decayed(settings, p, g)
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system)
    share = folded_complement if system == "Cerebras" else complement
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2, share)
    # Unlike Adam's, the root is taken of the corrected moment: equal on paper, and not in the last bit.
    root = sqrt(square / (1.0 - power(beta2, step))) + settings["eps"]
    lr = settings["lr"]
    if system == "PyTorch":
        p = p - lr * (1 - mu) / (1 - product) * (g / root)
        return p - lr * after / (1 - product * after) * (mean / root)
    ahead = after * mean / (1.0 - product * mu * after)
    return p + scaled(ahead + g * (1.0 - mu) / (1.0 - product), lr) / root


def _warmed_momentum(settings: Settings, step: Array) -> Array:
    """Return the momentum of a step, which grows from beta1 / 2 towards beta1."""
    rise = power(NADAM_WARMUP, step * settings["momentum_decay"])
    return (1.0 - rise * 0.5) * settings["betas"][0]


def radam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Adam whose first steps do without the second moment while its variance is large (Liu et al. 2020).

    The vendor has 1 - beta in float32 throughout.
    """
    p, g = _decayed(settings, p, g)
    beta1, beta2 = settings["betas"]
    step = s["step"]
    share = folded_complement if system == "Cerebras" else complement
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system, share)
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2, share)
    decay = power(beta2, step)
    # The length of the average, if it were a plain mean of the last squares: in the end, and by now.
    longest = 2 / share(beta2) - 1
    length = longest - step * 2.0 * decay / (1.0 - decay)
    trust = quotient((length - 4.0) * (length - 2.0) * longest, length * ((longest - 4) * (longest - 2)))
    # eps joins the root before the correction, and not after it as in PyTorch's Adam.
    root = sqrt(1.0 - decay) / (sqrt(square) + settings["eps"])
    # Both ways are computed and one is chosen: a recorded step has no branches on values. The root of a negative trust
    # is a NaN that is not chosen. The paper asks for a length of more than 4, PyTorch and the vendor for more than 5.
    is_certain = length > 5.0
    d = mean / (1.0 - power(beta1, step))
    d = d * where(is_certain, sqrt(trust), 1.0, p) * where(is_certain, root, 1.0, p)
    return p - d * settings["lr"]


def lamb(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Adam whose step in each layer is as long as its weights demand (You et al. 2020); no bias correction."""
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, "Cerebras")
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2)
    d = mean / (sqrt(square) + settings["eps"])
    if is_on(settings["weight_decay"]):
        d = d + p * settings["weight_decay"]
    if not settings["adam"]:
        # The paper calls this bound phi: very large weights do not make the steps ever larger.
        weights = clipped(norm(p), 0.0, LAMB_LONGEST)
        longest = norm(d)
        # Weights or steps that are zero have no ratio, and would make NaN of the layer.
        ratio = where(longest > 0.0, weights / longest, 1.0, p)
        d = d * where(weights > 0.0, ratio, 1.0, p)
    return p - d * settings["lr"]


def norm(x: Tensor) -> Tensor:
    """Return the Euclidean norm of all elements, 0-d."""
    return pw.sqrt(reduction.sum(x * x))


def asgd(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Gradient descent with a rate that falls, and the average `ax` of the parameter over the steps after t0.

    (Polyak and Juditsky 1992.) `lambd` decays with the falling rate, `weight_decay` through the gradient.
    """
    g = _directed(settings, p, g)
    lr, lambd = settings["lr"], settings["lambd"]
    # The rates are state that the step before made for this one.
    eta, mu, average = s["eta"], s["mu"], s["ax"]
    step = s["step"]
    p = as_type_of(p, as_type_of(p, p * (1.0 - eta * lambd)) + g * -eta)
    # Up to t0 mu is 1, and the average is the parameter itself.
    s["ax"] = where(mu == 1.0, p, average + (p - average) * mu, p)
    s["eta"] = quotient(lr, power(step * (lr * lambd) + 1.0, settings["alpha"]))
    s["mu"] = 1.0 / at_least(step - settings["t0"], 1.0)
    return p


def adagrad(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of g squared) + eps) (Duchi, Hazan and Singer 2011).

    The decay divides PyTorch's rate, and the vendor's gradient.
    """
    g = _directed(settings, p, g)
    # Counted from 0: the first step has the whole rate.
    slowing = (s["step"] - 1) * settings["lr_decay"] + 1
    # The gradient of this step counts among the past.
    s["sum"] = total = s["sum"] + g * g
    divisor = sqrt(total) + settings["eps"]
    if system == "PyTorch":
        return p - settings["lr"] / slowing * (g / divisor)
    return p + scaled(g / slowing, settings["lr"]) / divisor


def rmsprop(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """p - lr * g / (root of the mean of g squared + eps), with momentum (Hinton's lectures).

    With `centered` the root is of the variance (Graves 2013), so that a constant part of the gradient does not slow
    its own steps; the mean of PyTorch and that of the vendor round otherwise. TensorFlow's RMSprop has eps in the root.
    """
    g = _directed(settings, p, g)
    alpha = settings["alpha"]
    s["square_avg"] = square = _square_mean(s["square_avg"], g, alpha)
    if settings["centered"]:
        s["grad_avg"] = mean = _mean(s["grad_avg"], g, alpha, system)
        # Rounding can make it slightly negative, which eps outside of the root does not mend.
        square = square + mean * mean * -1.0
    d = g / (sqrt(square) + settings["eps"])
    if settings["momentum"]:
        s["momentum_buffer"] = d = s["momentum_buffer"] * settings["momentum"] + d
    # The rate multiplies what leaves the buffer, not what enters: a schedule acts on all of the past at once.
    return descended(p, d, settings["lr"])


def adadelta(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """p - lr * d with d = sqrt(mean of d squared + eps) / sqrt(mean of g squared + eps) * g (Zeiler 2012)."""
    g = _directed(settings, p, g)
    rho, eps = settings["rho"], settings["eps"]
    s["square_avg"] = square = _square_mean(s["square_avg"], g, rho)
    # eps in both roots lets the first step, which has no steps before it, be more than zero.
    spread = sqrt(square + eps)
    d = sqrt(s["acc_delta"] + eps) / spread * g
    s["acc_delta"] = _square_mean(s["acc_delta"], d, rho)
    return descended(p, d, settings["lr"])


def rprop(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Steps that grow while the gradient keeps its sign and shrink when it turns (Riedmiller and Braun 1993)."""
    g = _ascending(settings, g)
    shrink, grow = settings["etas"]
    # Only its sign is used. Of tiny half-type gradients the product can underflow to 0, which counts as no turn.
    agreement = g * s["prev"]
    factor = where(agreement > 0, grow, where(agreement < 0, shrink, 1.0, p), p)
    s["step_size"] = size = clipped(as_type_of(p, s["step_size"] * factor), *settings["step_sizes"])
    # Where the sign has turned nothing moves. The 0 in the state makes the next product 0, so that the step after it
    # does not shrink again.
    s["prev"] = g = where(agreement < 0, 0.0, g, p)
    return p - sign(g) * size


def lion(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """p - lr * sign(beta1 * mean + (1 - beta1) * g), with decoupled decay (Chen et al. 2023)."""
    beta1, beta2 = settings["betas"]
    mean, lr = s["exp_avg"], settings["lr"]
    if is_on(settings["weight_decay"]):
        p = as_type_of(p, p * _decay_left(lr, settings["weight_decay"]))
    # The direction is taken with one decay, and the mean goes on with the other.
    d = sign(_mean(mean, g, beta1, "Cerebras"))
    s["exp_avg"] = _mean(mean, g, beta2, "Cerebras")
    return descended(p, d, lr)


def _decay_left(lr: Any, decay: Any) -> Any:
    """Return 1 - lr * decay in float32, so that a constant rate and a scheduled one round alike.

    Either may be a 0-d tensor that a schedule computes.
    """
    if isinstance(lr, Tensor) or isinstance(decay, Tensor):
        return 1.0 - lr * decay
    return float(np.float32(1) - np.float32(lr) * np.float32(decay))
