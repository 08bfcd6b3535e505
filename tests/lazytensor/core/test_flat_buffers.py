"""Gradients of tensors that were joined stay one array until somebody asks, and are what they are one by one."""

import gc
import weakref

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.autograd.function import grad
from lazytensor.core.flat_buffers import values_of
from lazytensor.nn import Parameter
from lazytensor.optim.eager import Adam

SHAPES = [(2, 3), (1, 3), (4, 3)]


def parameters(shapes=SHAPES):
    return [Parameter(lt.arange(12.0)[: r * c].reshape(r, c) + k) for k, (r, c) in enumerate(shapes)]


def weighted(joined):
    return (joined * lt.arange(float(joined.numel())).reshape(*joined.shape)).sum()


def expected(shapes=SHAPES, dim=0):
    ends = np.cumsum([s[dim] for s in shapes])
    whole = np.zeros(np.concatenate([np.zeros(s) for s in shapes], dim).shape)
    whole.flat = np.arange(whole.size)
    return np.split(whole, ends[:-1], dim)


def test_gradients_of_joined_tensors_lie_in_one_array_and_read_as_slices():
    params = parameters()
    weighted(lt.cat(params)).backward()
    assert values_of([p.grad.cell for p in params]).tolist() == list(range(21))
    for p, g in zip(params, expected(), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_gradients_of_tensors_that_were_joined_along_another_dimension_are_slices():
    shapes = [(2, 3), (2, 1)]
    params = parameters(shapes)
    weighted(lt.cat(params, 1)).backward()
    for p, g in zip(params, expected(shapes, 1), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), g)


def test_a_piece_adds_to_what_came_another_way_and_to_what_was_there():
    params = parameters()
    loss = weighted(lt.cat(params)) + (params[0] * 2).sum()
    loss.backward(retain_graph=True)
    np.testing.assert_array_equal(params[0].grad.numpy(), expected()[0] + 2)
    loss.backward()
    np.testing.assert_array_equal(params[0].grad.numpy(), 2 * (expected()[0] + 2))
    np.testing.assert_array_equal(params[2].grad.numpy(), 2 * expected()[2])


def test_a_tensor_that_stands_twice_in_a_list_gets_the_sum_of_its_pieces():
    (p,) = parameters([(2, 3)])
    weighted(lt.cat([p, p])).backward()
    np.testing.assert_array_equal(p.grad.numpy(), sum(expected([(2, 3), (2, 3)])))


def test_a_gradient_that_is_written_to_leaves_the_others_alone():
    params = parameters()
    weighted(lt.cat(params)).backward()
    params[1].grad.mul_(10)
    assert values_of([p.grad.cell for p in params]) is None
    for p, g, factor in zip(params, expected(), (1, 10, 1), strict=True):
        np.testing.assert_array_equal(p.grad.numpy(), factor * g)


def test_hooks_of_a_leaf_see_its_piece():
    params, seen = parameters(), []
    params[1].register_hook(lambda g: seen.append(g.tolist()))
    params[2].register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    weighted(lt.cat(params)).backward()
    assert seen == [expected()[1].tolist(), expected()[2].tolist()]


def test_a_second_gradient_passes_through_a_piece():
    (p, q) = parameters([(2, 3), (1, 3)])
    (g,) = grad((lt.cat([p, q]) ** 3).sum(), p, create_graph=True)
    g.sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), 6 * p.detach().numpy())


@pytest.mark.parametrize("shapes", [SHAPES, [(2, 3)] * 4])
def test_an_optimizer_updates_joined_parameters_as_it_does_single_ones(shapes):
    joined, single = parameters(shapes), parameters(shapes)
    together, apart = Adam(joined, lr=0.1), [Adam([p], lr=0.1) for p in single]
    for _ in range(3):
        together.zero_grad()
        weighted(lt.cat(joined).square()).backward()
        together.step()
        for optimizer in apart:
            optimizer.zero_grad()
        weighted(lt.cat([p * 1 for p in single]).square()).backward()
        for optimizer in apart:
            optimizer.step()
    for p, q in zip(joined, single, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_a_graph_whose_gradients_were_asked_for_goes_without_a_search_for_cycles():
    gc.disable()
    try:
        (p,) = parameters([(2, 3)])
        loss = (p * 2).sum()
        loss.backward()
        root = weakref.ref(loss.node)
        del loss
        assert root() is None
    finally:
        gc.enable()
