"""`torch.nn.functional.gumbel_softmax`: classes drawn with a temperature."""

from lazytensor.core.tensor import Tensor


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Parts of a whole, or with `hard` ones and zeros that have the gradient of those."""
    noise = -logits.detach().new_empty(tuple(logits.shape)).exponential_().log()
    soft: Tensor = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = (soft.detach() * 0).scatter_(dim, index, 1.0)
    # The difference of the soft parts from themselves is 0 and has their gradient.
    return chosen - soft.detach() + soft
