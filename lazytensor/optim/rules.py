"""The update rule of each optimizer, used both for immediate and for recorded steps.

A rule takes the settings of a group, a parameter, its gradient and its state. It returns the new parameter and writes
new state to the state dict; it changes no array in place. Parameter, gradient and state are NumPy arrays or tensors
(see `elementwise`). "step" in the state is the number of the update that the rule computes, from 1.

PyTorch and the vendor compute the same updates with different rounding, and some with different formulas. The rules
concerned have an argument `system`.
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
"""The state of a parameter, with the names of state dicts: arrays, and counts as numbers or 0-d tensors."""
System = Literal["PyTorch", "Cerebras"]

NADAM_WARMUP = 0.96
"""Base of the exponential with which the momentum of NAdam approaches beta1 (Dozat 2016)."""
LAMB_LONGEST = 10.0
"""Upper bound on the norm of a layer's weights in Lamb."""


class Rule(Protocol):
    """A function that computes the update of one parameter."""

    def __call__(self, settings: Settings, p: Array, g: Array, s: State, /) -> Array:
        """Return the new value of the parameter `p` with gradient `g`, and write the new state to `s`."""


def _ascending(settings: Settings, g: Array) -> Array:
    return -g if settings.get("maximize") else g


def _directed(settings: Settings, p: Array, g: Array) -> Array:
    """Return the gradient, negated if `maximize` is set, plus weight decay (L2) if there is any."""
    # Decay is added after the negation, so that it shrinks the parameter with `maximize` too.
    g = _ascending(settings, g)
    return g + p * settings["weight_decay"] if is_on(settings["weight_decay"]) else g


def _decayed(settings: Settings, p: Array, g: Array) -> tuple[Array, Array]:
    """Return parameter and gradient after weight decay; the gradient is negated first if `maximize` is set.

    Decoupled decay multiplies the parameter by 1 - lr * decay; otherwise decay * parameter is added to the gradient.
    """
    if not settings.get("decoupled_weight_decay"):
        return p, _directed(settings, p, g)
    # Decay is multiplied by the rate, as in PyTorch's AdamW; in the paper it is independent of the rate.
    rate = settings["lr"] * settings["weight_decay"]
    return p * (1 - rate) if rate else p, _ascending(settings, g)


def _mean(mean: Array, g: Array, beta: float, system: System, share: Callable[[float], float] = complement) -> Array:
    """Return the exponential moving average of gradients after adding `g`.

    PyTorch computes mean + (g - mean) * (1 - beta). The vendor computes mean * beta + g * (1 - beta), which is rounded
    differently; `share` computes the vendor's 1 - beta, in float64 or float32.
    """
    return mean + (g - mean) * (1 - beta) if system == "PyTorch" else mean * beta + g * share(beta)


def _square_mean(square: Array, g: Array, beta: float, share: Callable[[float], float] = complement) -> Array:
    """Return the exponential moving average of squared gradients after adding `g`. `share` computes 1 - beta."""
    return square * beta + g * g * share(beta)


def sgd(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return p - lr * d, where d is the gradient with weight decay, or the momentum buffer in `s`, which is updated.

    The buffer is momentum * buffer + (1 - dampening) * gradient. With `nesterov`, d is the gradient + momentum *
    buffer. If `s` has no buffer yet, as in PyTorch's first step, it is the first gradient without dampening. The
    vendor's exists before the first step and is initially zero.
    """
    d = _directed(settings, p, g)
    momentum = settings["momentum"]
    if momentum:
        buffer = d
        if "momentum_buffer" in s:
            buffer = add_scaled(s["momentum_buffer"] * momentum, d, 1 - settings["dampening"])
        s["momentum_buffer"] = buffer
        # Unlike in Sutskever's formula, the rate is not part of the buffer, so a new rate applies to all of it.
        d = d + buffer * momentum if settings["nesterov"] else buffer
    return descended(p, d, settings["lr"])


def adam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return the parameter after a step of Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019).

    Replace the moments in `s`, and with `amsgrad` the maximum of all second moments, which is then used instead
    of the second moment. For PyTorch, `s["step"]` is only read: the caller counts it. Its bias correction is
    applied to the root of the second moment before eps is added, so that eps has the same weight in every step.
    The vendor (`system` "Cerebras") adds eps first. Its powers of the betas in `s` are one step ahead, and are
    updated here. Without these powers (AdamW with correct_bias=False, as for BERT) there is no bias correction,
    and the first steps are too large. Decoupled decay scales PyTorch's parameter before the step, and is part
    of the vendor's step.
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
        # The maximum is taken before the bias correction.
        s["max_exp_avg_sq"] = square = larger(s["max_exp_avg_sq"], square)
    if system == "PyTorch":
        step = s["step"]
        divisor = sqrt(square) / sqrt(1 - beta2**step) + settings["eps"]
        # Apply the correction of the mean to the rate, which gives PyTorch's rounding.
        return p - settings["lr"] / (1 - beta1**step) * (mean / divisor)
    d = mean / (sqrt(square) + settings["eps"])
    if "beta1_power" in s:
        power1, power2 = s["beta1_power"], s["beta2_power"]
        d = d * (sqrt(1.0 - power2) / (1.0 - power1))
        s["beta1_power"], s["beta2_power"] = power1 * beta1, power2 * beta2
    if is_on(settings["weight_decay"]):
        # Decoupled from the moments, but multiplied by the rate.
        d = d + p * settings["weight_decay"]
    return p - d * settings["lr"]


def adamax(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return the parameter after a step of Adamax (Kingma and Ba 2015), and update the state in `s`.

    It is Adam with a decaying maximum of gradients in place of the second moment. Only the mean needs a bias
    correction. PyTorch applies it to the rate; the vendor (`system` "Cerebras") divides the step by 1 minus the power
    of beta1, stored one step ahead.
    """
    g = _directed(settings, p, g)
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system)
    # eps is added to the gradient, so that the divisor is never 0.
    s["exp_inf"] = largest = larger(s["exp_inf"] * beta2, absolute(g) + settings["eps"])
    if system == "PyTorch":
        return p - settings["lr"] / (1 - beta1 ** s["step"]) * (mean / largest)
    ahead = s["beta1_power"]
    s["beta1_power"] = ahead * beta1
    # Two divisions and a product, as in the vendor's code, because each one rounds.
    return p - mean / largest / (1.0 - ahead) * settings["lr"]


def nadam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return the parameter after a step of NAdam (Dozat 2016): Adam with Nesterov momentum that warms up.

    The state in `s` is updated. PyTorch updates the parameter with the gradient and then with the mean. The vendor
    (`system` "Cerebras") adds both first, and its term of the mean has the momentum of this step twice, where Dozat has
    the product of momenta times the next one.
    """
    step = s["step"]
    # The momenta of this step and of the next one, which Nesterov's method uses.
    mu, after = _warmed_momentum(settings, step), _warmed_momentum(settings, step + 1.0)
    s["mu_product"] = product = as_float32(s["mu_product"] * mu)
    p, g = _decayed(settings, p, g)
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system)
    share = folded_complement if system == "Cerebras" else complement
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2, share)
    # Unlike in Adam, the root is of the corrected moment, which differs in the last bit.
    root = sqrt(square / (1.0 - power(beta2, step))) + settings["eps"]
    lr = settings["lr"]
    if system == "PyTorch":
        p = p - lr * (1 - mu) / (1 - product) * (g / root)
        return p - lr * after / (1 - product * after) * (mean / root)
    ahead = after * mean / (1.0 - product * mu * after)
    return p + scaled(ahead + g * (1.0 - mu) / (1.0 - product), lr) / root


def _warmed_momentum(settings: Settings, step: Array) -> Array:
    """Return the momentum of NAdam at a step, which grows from about beta1 / 2 towards beta1."""
    rise = power(NADAM_WARMUP, step * settings["momentum_decay"])
    return (1.0 - rise * 0.5) * settings["betas"][0]


def radam(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return the parameter after a step of RAdam (Liu et al. 2020), and update the moments in `s`.

    It is Adam whose first steps do not use the second moment, while its variance is large: until the length of its
    average exceeds 5. The vendor (`system` "Cerebras") computes 1 - beta in float32 throughout.
    """
    p, g = _decayed(settings, p, g)
    beta1, beta2 = settings["betas"]
    step = s["step"]
    share = folded_complement if system == "Cerebras" else complement
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, system, share)
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2, share)
    decay = power(beta2, step)
    # The length of the average, as if it were a plain mean of the last squares: its limit, and its current value.
    longest = 2 / share(beta2) - 1
    length = longest - step * 2.0 * decay / (1.0 - decay)
    trust = quotient((length - 4.0) * (length - 2.0) * longest, length * ((longest - 4) * (longest - 2)))
    # eps is added to the root before the correction, unlike in PyTorch's Adam.
    root = sqrt(1.0 - decay) / (sqrt(square) + settings["eps"])
    # Compute both variants and select one, because a recorded step has no branches on values. The root of a negative
    # `trust` is NaN and is not selected. The paper requires a length of more than 4, PyTorch and the vendor more than
    # 5.
    is_certain = length > 5.0
    d = mean / (1.0 - power(beta1, step))
    d = d * where(is_certain, sqrt(trust), 1.0, p) * where(is_certain, root, 1.0, p)
    return p - d * settings["lr"]


def lamb(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return the parameter after a step of Lamb (You et al. 2020), without bias correction.

    It is Adam with the step of each layer multiplied by the norm of the layer's weights (at most LAMB_LONGEST) divided
    by the norm of the step, unless the setting `adam` is on. If one of the norms is zero, the factor is 1.
    """
    beta1, beta2 = settings["betas"]
    s["exp_avg"] = mean = _mean(s["exp_avg"], g, beta1, "Cerebras")
    s["exp_avg_sq"] = square = _square_mean(s["exp_avg_sq"], g, beta2)
    d = mean / (sqrt(square) + settings["eps"])
    if is_on(settings["weight_decay"]):
        d = d + p * settings["weight_decay"]
    if not settings["adam"]:
        # The function phi of the paper, which bounds the steps for very large weights.
        weights = clipped(norm(p), 0.0, LAMB_LONGEST)
        longest = norm(d)
        # The ratio is undefined if weights or step are zero; use 1 then.
        ratio = where(longest > 0.0, weights / longest, 1.0, p)
        d = d * where(weights > 0.0, ratio, 1.0, p)
    return p - d * settings["lr"]


def norm(x: Tensor) -> Tensor:
    """Return the Euclidean norm of all elements as a 0-d tensor."""
    return pw.sqrt(reduction.sum(x * x))


def asgd(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return the parameter after a step of averaged SGD (Polyak and Juditsky 1992).

    The rate decreases over time. The state `ax` is the average of the parameter over the steps after `t0`, without this
    step's update. `lambd` decays the parameter with the decreasing rate, `weight_decay` through the gradient. The state
    `eta` and `mu` has the rates that the next step uses.
    """
    g = _directed(settings, p, g)
    lr, lambd = settings["lr"], settings["lambd"]
    # The rates were computed by the previous step.
    eta, mu, average = s["eta"], s["mu"], s["ax"]
    step = s["step"]
    p = as_type_of(p, as_type_of(p, p * (1.0 - eta * lambd)) + g * -eta)
    # Until t0, mu is 1 and the average is the parameter itself.
    s["ax"] = where(mu == 1.0, p, average + (p - average) * mu, p)
    s["eta"] = quotient(lr, power(step * (lr * lambd) + 1.0, settings["alpha"]))
    s["mu"] = 1.0 / at_least(step - settings["t0"], 1.0)
    return p


def adagrad(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of g squared) + eps) (Duchi, Hazan and Singer 2011).

    The sum in `s` is updated first, with this gradient. PyTorch applies the decay to the rate, the vendor (`system`
    "Cerebras") to the gradient. Weight decay is added to g.
    """
    g = _directed(settings, p, g)
    # Counted from 0, so that the first step has the full rate.
    slowing = (s["step"] - 1) * settings["lr_decay"] + 1
    # The sum includes the gradient of this step.
    s["sum"] = total = s["sum"] + g * g
    divisor = sqrt(total) + settings["eps"]
    if system == "PyTorch":
        return p - settings["lr"] / slowing * (g / divisor)
    return p + scaled(g / slowing, settings["lr"]) / divisor


def rmsprop(settings: Settings, p: Array, g: Array, s: State, *, system: System) -> Array:
    """Return p - lr * g / (root of the mean of g squared + eps), with momentum (Hinton's lectures).

    The means in `s` are updated first. With momentum, the buffer momentum * buffer + quotient takes the place of the
    quotient. With `centered`, the root is of the variance (Graves 2013), so that a constant gradient does not reduce
    its own step. The means of PyTorch and the vendor are rounded differently. In TensorFlow's RMSprop, eps is inside
    the root.
    """
    g = _directed(settings, p, g)
    alpha = settings["alpha"]
    s["square_avg"] = square = _square_mean(s["square_avg"], g, alpha)
    if settings["centered"]:
        s["grad_avg"] = mean = _mean(s["grad_avg"], g, alpha, system)
        # Rounding can make the variance slightly negative; eps is outside of the root and does not prevent NaN.
        square = square + mean * mean * -1.0
    d = g / (sqrt(square) + settings["eps"])
    if settings["momentum"]:
        s["momentum_buffer"] = d = s["momentum_buffer"] * settings["momentum"] + d
    # The rate multiplies the buffer's output, so a new rate applies to the whole buffer.
    return descended(p, d, settings["lr"])


def adadelta(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return p - lr * d with d = sqrt(mean of d squared + eps) / sqrt(mean of g squared + eps) * g (Zeiler 2012).

    Both means are in `s` and decay with rho; that of g is updated before d is computed, that of d afterwards.
    """
    g = _directed(settings, p, g)
    rho, eps = settings["rho"], settings["eps"]
    s["square_avg"] = square = _square_mean(s["square_avg"], g, rho)
    # eps in both roots makes the first step non-zero.
    spread = sqrt(square + eps)
    d = sqrt(s["acc_delta"] + eps) / spread * g
    s["acc_delta"] = _square_mean(s["acc_delta"], d, rho)
    return descended(p, d, settings["lr"])


def rprop(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return the parameter after a step of Rprop (Riedmiller and Braun 1993).

    Each element has a step size, which grows while its gradient keeps the sign and shrinks when the sign changes,
    within the setting `step_sizes`. An element whose sign has changed does not move in this step. Only the sign of the
    gradient is used.
    """
    g = _ascending(settings, g)
    shrink, grow = settings["etas"]
    # Only the sign is used. The product of tiny half-type gradients can underflow to 0, which counts as no change.
    agreement = g * s["prev"]
    factor = where(agreement > 0, grow, where(agreement < 0, shrink, 1.0, p), p)
    s["step_size"] = size = clipped(as_type_of(p, s["step_size"] * factor), *settings["step_sizes"])
    # Where the sign has changed, the element does not move. The 0 in the state prevents that the next step shrinks
    # again.
    s["prev"] = g = where(agreement < 0, 0.0, g, p)
    return p - sign(g) * size


def lion(settings: Settings, p: Array, g: Array, s: State) -> Array:
    """Return p - lr * sign(beta1 * mean + (1 - beta1) * g), with decoupled decay (Chen et al. 2023).

    The mean in `s` is then updated with beta2. Decay multiplies p by 1 - lr * weight_decay first.
    """
    beta1, beta2 = settings["betas"]
    mean, lr = s["exp_avg"], settings["lr"]
    if is_on(settings["weight_decay"]):
        p = as_type_of(p, p * _decay_left(lr, settings["weight_decay"]))
    # The direction uses beta1, the mean beta2.
    d = sign(_mean(mean, g, beta1, "Cerebras"))
    s["exp_avg"] = _mean(mean, g, beta2, "Cerebras")
    return descended(p, d, lr)


def _decay_left(lr: Any, decay: Any) -> Any:
    """Return 1 - lr * decay in float32, so that constant and scheduled rates are rounded alike.

    Each may be a 0-d tensor if a schedule computes it; the result is a tensor then, else a Python number.
    """
    if isinstance(lr, Tensor) or isinstance(decay, Tensor):
        return 1.0 - lr * decay
    return float(np.float32(1) - np.float32(lr) * np.float32(decay))
