"""The function `torch.nn.functional.gumbel_softmax`."""

from lazytensor.core.tensor import Tensor


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return samples of the Gumbel-Softmax distribution with temperature `tau` along `dim`.

    With `hard`, samples are one-hot vectors with the gradient of the soft samples. `eps` has no effect.
    """
    noise = -logits.detach().new_empty(tuple(logits.shape)).exponential_().log()
    soft: Tensor = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = (soft.detach() * 0).scatter_(dim, index, 1.0)
    # The difference of the soft samples is 0 and carries their gradient.
    return chosen - soft.detach() + soft
