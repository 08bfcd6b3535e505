"""Bad calls with one fault raise errors of the types that PyTorch raises.

All types are recorded from PyTorch 2.13.0.
"""

import builtins

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import ArgumentInvalid, TensorMissing

torch = get_mirror("torch")
GIVEN = {
    "x": lt.ones(3, 3),
    "tt": lt.tensor([1, 1]),
    "t0": lt.tensor(1),
    "t1": lt.tensor([1]),
    "f0": lt.tensor(1.0),
    "b0": lt.tensor(True),
    "big": 1 << 70,
    "torch": torch,
}
CALLS = {
    "TypeError": """
        tril(x,f0); tril(x,None); sum(x,f0); sum(x,[big]); flip(x,[big]); flip(x,big); reshape(x,t0); reshape(x,t1);
        pow(x,"w"); pow(x,None); fmod(2,3); fmod(x,None); remainder(2,3); eq(2,3); lt(x,"w"); bitwise_and(2,3);
        clamp(x,tt,.5); clamp(x,.5,tt); zeros(f0); zeros("w"); rand(big); rand(1e300); randn("w"); empty(3,.5);
        full(t0,.5); full([3],None); eye(f0); eye(True); arange(tt); arange(None); linspace(0,1,.5); linspace(0,1,"w");
        randint(tt,[2]); randint(0,tt,[2]); tile(x,tt); tile(x,[big]); permute(x,1); permute(x,tt); broadcast_to(x,3);
        broadcast_to(x,tt); movedim(x,tt,0); roll(x,tt,0); roll(x,.5,0); topk(x,2,tt); sort(x,0,tt); kthvalue(x,tt);
        chunk(x,tt); narrow(x,0,0,tt); select(x,0,tt); index_select(x,0,2); gather(x,True,tt); softmax(x,0,2);
        var(x,[big]); amax(x,tt); min(x,[0]); argmax(x,[0]); all(x,[big]); mean(x,tt); histc(x,True); histc(x,tt);
        bincount(tt,2); cat([x,2]); cat(2); take_along_dim(x,2,0); take_along_dim(x,x.long(),[0]); lerp(x,x,None);
        lerp(x,2,x); where(x>0,"w",x); full_like(x,tt); zeros_like(2); tensor("w"); as_tensor("w"); F.layer_norm(x,tt);
        F.pad(x,2); F.pad(x,[1,1],2); F.unfold(x,t0); F.unfold(x,"w"); F.gelu(x,2); F.gelu(2,2); F.conv2d(2,2);
        F.conv2d(x,x,2); F.max_pool2d(x,tt); F.max_pool2d(x,.5); F.avg_pool2d(torch.ones(3),tt); F.avg_pool2d(x,"w");
        F.one_hot(tt,tt); F.one_hot(tt,True); F.dropout(x,"w"); F.dropout(x,None); F.group_norm(x,"w");
        F.group_norm(x,None); F.normalize(x,tt); F.normalize(x,2,tt); F.glu(x,tt); F.glu(x,"w");
        F.interpolate(x[None],"w"); F.adaptive_avg_pool2d(x[None],t0); F.adaptive_avg_pool2d(x[None],"w");
        baddbmm(2,x,x); mv(2,x); tensordot(x,x,tt); tensordot(x,x,[1,0]); split(x,tt); split(x,.5); einsum("ij",2);
        einsum("ij",[2]); F.nll_loss(x,tt,2); F.nll_loss(x,2); F.linear(x,2); F.linear(x,x,2); F.batch_norm(x,2,2);
        F.scaled_dot_product_attention(x,x,x,2); nonzero(2)
    """,
    "ValueError": """
        sum(x,big); eye(big); eye(big,2); randint(0,big,[2]); select(x,0,big); cat([]); as_tensor(big); tensor(big);
        F.dropout(x,2); F.group_norm(x,big); F.glu(x,big); F.interpolate(x[None],[2,2]); F.interpolate(x[None],[]);
        F.adaptive_avg_pool2d(x,[2,2,2]); F.adaptive_avg_pool2d(x[0],[2,2]); tensordot(x,x,[1]); tensordot(x,x,[]);
        tensordot(x,x,[1,2,3]); einsum(tt); einsum(2); einsum("ij"); F.mse_loss(x,x,None,None,"w");
        F.binary_cross_entropy(x,tt); F.nll_loss(t0,tt)
    """,
    "RuntimeError": """
        reshape(x,[t1]); clamp(x,None,tt); linspace(tt,1,3); linspace(0,tt,3); linspace(tt,tt,3); permute(x,[0]);
        permute(x,[0,0]); movedim(x,[0,1],[0]); roll(x,[1],[0,1]); repeat_interleave(x,tt,0); narrow(x,0,tt,1);
        narrow(x,0,b0,1); scatter(x,0,tt,tt); masked_fill(x,x>0,tt); max(x,tt); norm(x,"w"); meshgrid(x);
        take_along_dim(x,tt,0); tensor(None); as_tensor(None); as_tensor([None]); F.layer_norm(x,[t0]);
        F.layer_norm(x,[]); F.pad(x,[1],"constant"); F.conv2d(x,x,x,2,"w"); F.max_pool2d(x,2,[]); F.max_pool2d(x,[]);
        F.max_pool2d(torch.ones(3),2); F.one_hot(tt,t0); F.one_hot(x,2); F.embedding(x,x); F.embedding(tt,t0);
        F.embedding(tt,x,tt); F.dropout(x,tt); F.dropout(x,torch.ones(0)); F.group_norm(x,tt);
        F.group_norm(x,torch.ones(0)); F.glu(t0); F.glu(torch.ones(2,3),1); F.adaptive_avg_pool2d(x,2);
        F.adaptive_avg_pool2d(x[None],[]); F.adaptive_avg_pool2d(x[None],torch.ones(0)); baddbmm(x[None],x,x[None]);
        baddbmm(torch.ones(2,2),x[None],x[None]); bmm(x,x); bmm(tt,x); mv(x,t0); mv(tt,x); mv(x[None],tt); mm(t0,x);
        mm(tt,x); addmm(x,tt,x); addmm(x,t0,x); dot(x,x); dot(t0,tt); dot(tt,torch.ones(2)); outer(t0,tt); outer(x,tt);
        outer(tt,x); trace(tt); trace(x[None]); matmul(t0,x); cross(x,tt,5); cross(x,torch.ones(2),0); cross(tt,tt);
        scatter(t0,0,tt,tt); tensordot(x,x,"w"); tensordot(x,x,None); tensordot(x,x,.5); split(x,[]); split(x,-1);
        split(t0,1); narrow(x,0,2,9); kthvalue(t0,2); kthvalue(x,9); max(torch.ones(0)); einsum(x,[0]); einsum(x,[x]);
        F.cross_entropy(x,x.long()); F.mse_loss(x,x,tt); F.mse_loss(x,x,torch.ones(0)); F.mse_loss(x,tt,"w");
        F.binary_cross_entropy(x,x,tt); F.smooth_l1_loss(x,x,tt); F.kl_div(x,x,tt); F.nll_loss(x,x);
        F.batch_norm(x>0,tt,tt); F.batch_norm(t0,None,None); F.scaled_dot_product_attention(x,x.double(),tt);
        F.scaled_dot_product_attention(tt,tt,tt); F.scaled_dot_product_attention(x,x,tt); bitwise_and(x,tt); tril(tt>0);
        mv(x,x); mv(tt,tt); hstack([]); F.scaled_dot_product_attention(x,tt,x)
    """,
    "NotImplementedError": """
        bitwise_and(2,x); bincount(x); F.pad(x,[1,1],"w"); F.interpolate(x,2); F.interpolate(x,tt);
        F.interpolate(x,"w"); bitwise_and(x,x); bitwise_and(tt,.5); bitwise_or(x,x); bitwise_not(x); bitwise_xor(x,x);
        trace(x>0); F.cross_entropy(x.long(),torch.arange(3)); F.cross_entropy(x>0,torch.arange(3))
    """,
    "IndexError": """
        permute(x,[0,5]); movedim(x,[-5],[0]); F.unfold(x,2); F.unfold(x,tt); F.unfold(torch.ones(3),2);
        F.avg_pool2d(torch.ones(3),2); F.avg_pool2d(t0,2); F.normalize(x,2,5); F.glu(x,5); baddbmm(x,x,x);
        baddbmm(x,tt,x[None]); baddbmm(x,x[None],t0); mv(t0,x); mv(t0,t0); cross(x,x,5); cross(tt,tt,5);
        scatter(x,9,x.long(),x); gather(x,9,tt); tensordot(x,x,[[9],[0]]); select(t0,0,0); select(x,0,9);
        narrow(x,0,9,1); narrow(x,9,0,1); amax(torch.ones(0),0); unbind(t0); kthvalue(x,9,9); kthvalue(torch.ones(0),1);
        kthvalue(torch.ones(0,3),1,0); argmin(torch.ones(0),0); argmin(torch.ones(0)); argmin(torch.ones(0),5);
        max(torch.ones(0),0); narrow(x,0,-9,1)
    """,
    "AttributeError": """
        F.group_norm(2,2); split(2,1); norm([1]); tensordot(x,[],1); F.mse_loss(x,.5); F.mse_loss(None,x);
        F.l1_loss([],x); F.smooth_l1_loss(x,[]); F.huber_loss([],x); F.binary_cross_entropy(2,x);
        F.binary_cross_entropy_with_logits(x,2); F.gaussian_nll_loss(2,x,x); F.margin_ranking_loss(tt,tt,2);
        F.interpolate([1],2); F.glu(.5); F.normalize(2); F.adaptive_avg_pool2d(2,2); F.instance_norm(2);
        F.local_response_norm(2,2); F.softsign(2); F.dropout2d(2)
    """,
}
"""Calls by what they raise; names without a module are those of torch, and F is torch.nn.functional."""


def called(text):
    name, _, rest = text.partition("(")
    name = name.replace("F.", "nn.functional.")
    return eval(f"torch.{name}({rest}", GIVEN)


@pytest.mark.parametrize("kind", CALLS)
def test_a_bad_call_raises_the_type_that_pytorch_raises(kind):
    others = {}
    for text in " ".join(CALLS[kind].split()).split("; "):
        with pytest.raises(Exception) as e:
            called(text)
        if not isinstance(e.value, getattr(builtins, kind)):
            others[text] = repr(e.value)
    assert not others


def test_something_else_than_a_tensor_is_a_type_error_of_ours_where_pytorch_asks_for_an_attribute():
    with pytest.raises(
        TensorMissing, match=r"mse_loss\(\): argument 'target' \(position 2\) must be Tensor, not int"
    ) as e:
        torch.nn.functional.mse_loss(lt.ones(3), 2)
    assert isinstance(e.value, ArgumentInvalid) and "test_argument_kinds.py:" in str(e.value)


@pytest.mark.parametrize(
    "text, like",
    [
        ("split(x, t1)", "split(x, 1)"),
        ("split(x, f0)", "split(x, 1)"),
        ("movedim(x, t0, 0)", "movedim(x, 1, 0)"),
        ("roll(x, t0, 0)", "roll(x, 1, 0)"),
        ("linspace(0, 1, t0)", "linspace(0, 1, 1)"),
    ],
)
def test_a_tensor_of_one_element_counts_as_its_number(text, like):
    """Recorded from PyTorch 2.13.0."""
    results, others = (r if isinstance(r, tuple) else (r,) for r in (called(text), called(like)))
    assert [t.tolist() for t in results] == [t.tolist() for t in others]


@pytest.mark.parametrize("text", ["x.reshape(5)", "x.permute(5, 5)", "x.flip(5)", "x.tile(-1)", "x.broadcast_to(2)"])
def test_methods_read_integers_one_by_one(text):
    with pytest.raises((RuntimeError, IndexError)) as e:
        eval(text, dict(GIVEN))
    assert not isinstance(e.value, TypeError)


@pytest.mark.parametrize("text", ["zeros(2.0)", "ones(1, 1.5)", "rand(t0 / 1)", "sort(x, 0, [])", "F.one_hot(tt, 2.0)"])
def test_a_fraction_is_no_size(text):
    with pytest.raises(TypeError):
        called(text)
