"""Expressions over `t` (PyTorch, or what stands for it) and the answers that PyTorch gave to them, in indexing.json.

    python -m tests.golden.indexing_answers        # records them anew, in an environment with torch and numpy

x3() is [2, 3, 4] counted from 0, `x` is a [3, 4] leaf with equal elements and a zero.
"""

import json
import pathlib
from types import ModuleType
from typing import Any

import numpy as np

PATH = pathlib.Path(__file__).with_name("indexing.json")

READS = r"""
x3()[0,:,[0,1]]
x3()[:,0,[0,1]]
x3()[[0,1],:,0]
x3()[t.tensor(0),:,t.tensor([0,1])]
x3()[t.tensor(0)]
x3()[[True,False],0]
x3()[t.tensor([0,1],dtype=t.uint8)]
x3()[[[0,1],[1,2]]]
x3()[t.tensor(True)]
x3()[False]
x3()[True,None,0]
x3()[...,[0,2]]
x3()[None,[0,1],...,[1]]
x3()[:,t.tensor([[0,1],[1,2]])]
x3()[x3()>5]
x3()[:,x3()[0]>5]
x3()[x3()[:,:,0]>3]
x3()[x3()[:,:,0]>3,1:3]
x3()[np.array([0,1]),1]
x3()[range(2),1]
x3()[-1,[-1,-2]]
x3()[[],1]
x3()[t.tensor([],dtype=t.int64)]
x3()[0,None,[1,2],None]
x3()[[0,1],[1,2],None,[0,1]]
x3()[:,[0],:,None]
x3()[t.tensor([5])]
x3()[1,2,3,4]
x3()[1.0]
x3()[...,...]
x3()[t.tensor([1.])]
x3()[t.tensor([True])]
x3()[t.tensor([0,1]),t.tensor([0,1,2])]
x3()[np.int64(1)]
x3()[(1,2)]
x3()[[1,2],]
x3()[slice(0,1),t.tensor([1,1],dtype=t.int32)]
x3()[-3]
t.mode(t.tensor([[1.,2,2,1],[5,5,4,4]]))
t.median(t.tensor([3.,1,nan,1]),0)
t.nanmedian(t.tensor([3.,1,nan,1]),0)
t.nanmedian(t.tensor([3.,1,nan,1]))
t.median(t.tensor([3,1,1,2]))
t.nanmedian(t.tensor([nan,nan]))
t.sort(t.tensor([nan,1.,-float("inf"),3,1]),descending=True)
t.sort(t.tensor([3,1,3,1,2]),descending=True,stable=True)
t.sort(t.tensor([3.,nan,1]))
t.cummax(t.tensor([1,1,0,1,nan,2.]),0)
t.cummin(t.tensor([1,1,0,1,0]),0)
t.max(t.tensor([nan,1,nan]),0)
t.argmax(t.tensor([[1,3],[3,0]]))
t.argmax(t.tensor([[1.,nan],[3,0]]),keepdim=True)
t.min(t.tensor([[True,False],[True,True]]),1)
t.argmin(t.tensor([2,1,1]))
t.tensor([]).argmax()
t.median(t.zeros(0))
t.zeros(0,3).max(0)
t.zeros(0,3).max(1)
t.unique(t.tensor([3,1,2,1]),return_counts=True,return_inverse=True)
t.unique(t.tensor([nan,1,nan]))
t.unique(t.tensor([[1,2],[1,2],[0,3]]),dim=0,return_inverse=True,return_counts=True)
t.unique_consecutive(t.tensor([1,1,2,2,1]),return_counts=True)
t.unique_consecutive(t.zeros(0))
t.unique(t.zeros(0),return_counts=True)
t.bincount(t.tensor([1,1,3]),minlength=6)
t.bincount(t.zeros(0,dtype=t.int64))
t.bincount(t.tensor([-1]))
t.bincount(t.tensor([0,1]),t.tensor([.5,2]))
t.histc(t.tensor([1.,2,1]),4,0,3)
t.histc(t.tensor([1.,2,1]),4)
t.histc(t.tensor([1.,1]),2)
t.histc(t.zeros(3),0)
t.histogram(t.tensor([1.,2,1]),4,range=(0.,3.),weight=t.tensor([1.,2,4]))
t.histogram(t.tensor([1.,2,1]),t.tensor([0.,1,2]),density=True)
t.searchsorted(t.tensor([1,3,5]),3)
t.searchsorted(t.tensor([1,3,5]),t.tensor([3,9,0]),right=True)
t.searchsorted(t.tensor([1.,3,5]),t.tensor([[3.,nan]]),side="right")
t.bucketize(3.5,t.tensor([1.,3,5]))
t.isin(t.tensor([1,2]),2)
t.isin(1,t.tensor([1,2]),invert=True)
t.cumsum(t.tensor([True,True]),0)
t.cumsum(t.tensor([1,2],dtype=t.int8),0)
t.cumprod(t.tensor([1.,2,0,3]),0)
t.cumsum(t.zeros(0,3),0)
t.logcumsumexp(t.tensor([-float("inf"),-float("inf"),1.]),0)
t.logcumsumexp(t.tensor([1]),0)
t.diff(t.tensor([1,4,9]),2)
t.diff(t.tensor([True,False,False]))
t.diff(t.tensor([1,2]),5)
t.diff(t.tensor(1))
t.roll(t.arange(6).reshape(2,3),1)
t.roll(t.arange(6).reshape(2,3),(1,-1),(0,1))
t.rot90(t.arange(6).reshape(2,3),-1)
t.flip(t.arange(6).reshape(2,3),(0,0))
t.arange(6).reshape(2,3).flip(0,1)
t.arange(6).reshape(2,3).flip(-1)
t.topk(t.tensor([1.,nan,3]),2)
t.topk(t.tensor([[1.,5,3],[4,2,6]]),2,dim=0,largest=False)
t.topk(t.zeros(3),5)
t.kthvalue(t.tensor([3.,1,2]),2)
t.kthvalue(t.zeros(3),0)
t.count_nonzero(t.tensor([[1,0],[2,3]]),dim=1)
t.count_nonzero(t.tensor([[1,0],[2,3]]))
t.repeat_interleave(t.tensor([2,0,3]))
t.repeat_interleave(t.tensor([[1,2],[3,4]]),2)
t.repeat_interleave(t.tensor([[1,2],[3,4]]),t.tensor([1,3]),0)
t.repeat_interleave(t.zeros(3),t.tensor([1,2]))
t.combinations(t.tensor([1,2,3]))
t.combinations(t.tensor([1,2]),0)
t.unravel_index(t.tensor([5,3]),(2,3))
t.unravel_index(t.tensor(9),(2,2))
t.gather(t.zeros(3),0,t.tensor([5]))
t.gather(t.zeros(3),0,t.tensor([-1]))
t.zeros(3).gather(0,t.tensor([[0]]))
t.gather(t.zeros(3),0,t.tensor([0.]))
t.index_select(t.zeros(3),0,t.tensor([7]))
t.index_select(t.zeros(3),0,t.tensor([-1]))
t.take(t.zeros(3),t.tensor([-4]))
t.take(t.arange(3),t.tensor([-1]))
t.masked_select(t.zeros(3),t.tensor([1,0,1]))
t.zeros(3).index_add(0,t.tensor([0]),t.zeros(2))
t.scatter(t.zeros(3),0,t.tensor([1]),t.zeros(1,dtype=t.float64))
t.scatter(t.zeros(3),0,t.tensor([1]),2.)
t.scatter(t.arange(3.),0,t.tensor([1]),t.tensor([2.]),reduce="multiply")
t.nn.functional.one_hot(t.tensor([5]),3)
t.nn.functional.one_hot(t.tensor([0,2]))
t.nn.functional.embedding(t.tensor([4]),t.zeros(3,2))
t.nn.functional.embedding(t.tensor([[1,0]]),t.arange(6.).view(3,2))
t.nn.functional.embedding_bag(t.tensor([[1,0],[2,2]]),t.arange(6.).view(3,2))
t.nn.functional.embedding_bag(t.tensor([1,0,2]),t.arange(6.).view(3,2),t.tensor([0,2,2]),mode="max")
t.nn.functional.embedding_bag(t.tensor([1,0,2]),t.arange(6.).view(3,2),t.tensor([0,2,3]),mode="sum",include_last_offset=True)
t.nonzero(t.tensor([[1,0],[0,2]]),as_tuple=True)
t.nonzero(t.tensor(5.))
t.where(t.tensor([True,False,True]))
t.tensor(3.).nonzero(as_tuple=True)
t.argwhere(t.tensor([1,0]))
t.aminmax(t.tensor([1.,nan]))
t.aminmax(t.zeros(0))
t.msort(t.tensor([[3,1],[2,5]]))
t.trapezoid(t.tensor([1.,2,4]),dx=2)
t.trapezoid(t.tensor([1,2,4]))
t.cumulative_trapezoid(t.tensor([[1.,2,4]]),t.tensor([0.,1,3]))
t.take_along_dim(t.tensor([[3,1,2]]),t.tensor([[0],[2]]),1)
t.masked_scatter(t.zeros(3),t.tensor([True,False,True]),t.tensor([1.,2]))
t.scatter_reduce(t.tensor([1,2]),0,t.tensor([0,0]),t.tensor([3,5]),"mean")
t.scatter_reduce(t.tensor([1,-2]),0,t.tensor([1,1]),t.tensor([-3,-4]),"mean",include_self=False)
t.index_reduce(t.tensor([1.,2]),0,t.tensor([0,0]),t.tensor([3.,5]),"prod")
t.tensor([3,1,2]).sort(descending=True)[1]
t.tensor([[1.,2]]).max(dim=1)
t.tensor([[1.,2]]).max(dim=-1,keepdim=True).values
t.tensor([1,2]).where(t.tensor([True,False]),0)
t.max(input=t.tensor([1.,2.]),dim=0)
t.cumsum(input=t.ones(2),dim=0)
t.gather(input=t.ones(2),dim=0,index=t.tensor([1]))
t.sort(input=t.tensor([2,1]))
t.nn.Embedding(3,2,padding_idx=-1)
t.nn.EmbeddingBag(3,2)
t.argmax(input=t.tensor([1,2]))
t.topk(input=t.tensor([1,2]),k=1)
t.where(condition=t.tensor([True]),input=t.tensor([1.]),other=t.tensor([2.]))
t.index_select(input=t.ones(2),dim=0,index=t.tensor([1]))
t.masked_fill(input=t.ones(2),mask=t.tensor([True,False]),value=2)
t.scatter(input=t.zeros(2),dim=0,index=t.tensor([1]),value=2)
t.flip(input=t.arange(3),dims=[0])
t.roll(input=t.arange(3),shifts=1,dims=0)
t.nonzero(input=t.ones(1))
t.unique(input=t.ones(1))
t.bincount(input=t.tensor([1]))
t.ones(2,3).count_nonzero(dim=(0,1))
t.tensor([1,2,3]).isin(t.tensor([1]))
t.arange(3).argsort(descending=True)
t.max(t.zeros(2,3),1)[0].shape
t.unravel_index(t.tensor(3),4)
t.searchsorted(t.tensor([3,1,5]),4,sorter=t.tensor([1,0,2]))
""".strip().splitlines()
"""What is computed."""

WRITES = r"""
x[0,[0,1]]=t.tensor([[1.,2,3,4],[5,6,7,8]])
x[x>5]=0.
x[:,1:][:,[0,1]]=-1
x[x[:,:,0]>3]=t.arange(4.)
x[1:][x[1:]>15]=t.zeros(8)
x[[0,0],[1,1]]=7
x[:,t.tensor([True,False,True])]=t.arange(8.).reshape(2,1,4)
x[0][1][[2,3]]=9.
x.transpose(0,2)[[1,2],0]=5.
x[...,[0,1]]=t.tensor([[[[1.,2]]]])
x[[0,1]]=t.zeros(3,2)
x[t.tensor([9])]=1
x[None,0]=3.
x[True]=3.
x[False]=3.
x[0,t.tensor(1)]=t.tensor(3)
x[x>100]=t.zeros(0)
x[:,[1,2],None]=2
x[[0,1],:,[2,3]]=t.arange(6.).view(2,3)
x.index_put_((t.tensor([0,0]),),t.tensor(1.),accumulate=True)
x.scatter_(1,t.zeros(2,1,4,dtype=t.int64),9.)
x.index_add_(2,t.tensor([0,0]),t.ones(2,3,2))
x.index_fill_(1,t.tensor([1]),-2)
x.index_copy_(0,t.tensor([1,0]),x*2)
x.masked_fill_(x>3,0)
x.masked_scatter_(x>3,t.arange(24.))
x[0].cumsum_(0)
x.put_(t.tensor([1,-1]),t.tensor([5.,6.]))
x[0].zero_()
x.scatter_reduce_(0,t.zeros(2,3,4,dtype=t.int64),x*3,"mean",include_self=False)
x[0,0]=t.tensor([1,2,3,4])
x[1][x[1]>14]*=2
x[[0]]+=1
""".strip().splitlines()
"""What is done to x = x3(), which is the answer."""

GRADIENTS = r"""
x[[0,0,2]]
x[x>1]
x[[0,1],[1,1]].cumprod(0)
x[1:,t.tensor([0,0,3])]
x.gather(1,t.tensor([[0,0],[3,1],[2,2]]))
x.sort(1,descending=True).values
x.topk(2,1).values
x.max(1).values
x.min(0).values
x.max()
x.min()
x.median()
x.nanmedian()
x.median(1).values
x.mode(1).values
x.kthvalue(2,1).values
t.aminmax(x,dim=1).max
x.cummax(1).values
x.cummin(0).values
x.cumsum(1)
x.cumprod(1)
x.cumprod(0)
x.logcumsumexp(1)
x.diff(2)
x.flip(0,1)
x.roll(1,1)
x.rot90()
t.trapezoid(x,x*2)
x.scatter(1,t.tensor([[0,1],[2,3],[1,0]]),x[:,:2]*3)
x.scatter_add(1,t.tensor([[0,0],[2,3],[1,1]]),x[:,:2]*3)
x.scatter_reduce(1,t.tensor([[0,0],[2,3],[1,1]]),x[:,:2]*1.0,"amax")
x.scatter_reduce(1,t.tensor([[0,0],[2,3],[1,1]]),x[:,:2]*3,"amin",include_self=False)
x.scatter_reduce(1,t.tensor([[0,0],[2,3],[1,1]]),x[:,:2]*3,"prod")
x.scatter_reduce(1,t.tensor([[0,0],[2,3],[1,1]]),x[:,:2]*3,"mean",include_self=False)
x.index_add(0,t.tensor([0,0]),x[1:],alpha=2)
x.index_copy(0,t.tensor([2]),x[:1]*2)
x.index_fill(1,t.tensor([0,0]),x[0,0]*2)
x.index_select(1,t.tensor([3,3,0]))
x.index_put((t.tensor([0,0]),),x[1]*2,accumulate=True)
x.index_put((t.tensor([0,2]),),x[1]*2)
x.take(t.tensor([0,-1,0]))
x.put(t.tensor([0,5]),x[0,:2]*2,accumulate=True)
x.masked_select(x<1)
x.masked_scatter(x<1,x*3)
x.masked_fill(x<1,x[0,0])
x.repeat_interleave(t.tensor([1,0,2]),0)
t.combinations(x[0])
t.where(x>1,x,x*x)
t.nn.functional.embedding(t.tensor([[0,1],[2,1]]),x,padding_idx=1)
t.nn.functional.embedding_bag(t.tensor([[0,1],[2,1]]),x,mode="mean")
t.nn.functional.embedding_bag(t.tensor([0,1,2]),x,t.tensor([0,2]),mode="max")
t.take_along_dim(x,t.tensor([[0],[1],[3]]),1)
""".strip().splitlines()
"""The answer is the gradient of sum(out * (1, 2, 3, ...)) in x."""

WRITTEN_GRADIENTS = r"""
y[[0,0]]=x[:2]
y[y>1]=x[0,0]
y[1:][:,[0,2]]=x[:2,:2]
y[0][y[0]>0]=0.
y[:,1]=x[:,0]*x[:,2]
y[x>1]=x[x<1]*2
""".strip().splitlines()
"""What is done to y = x * 1; the answer is the gradient of sum(y * (1, 2, 3, ...)) in x."""


def plain(value: Any) -> Any:
    """An answer as JSON: dtype, shape and elements of tensors."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if not hasattr(value, "detach"):
        return str(value)
    flat = np.asarray(value.detach().numpy()).ravel().tolist()
    return [str(value.dtype).rpartition(".")[2], list(value.shape), [shown(v) for v in flat]]


def shown(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def failed(error: Exception) -> str:
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def read(t: ModuleType, expression: str, **names: Any) -> Any:
    """The answer to an expression, or the kind of its error."""
    scope = {"t": t, "np": np, "nan": float("nan"), "x3": lambda: t.arange(24.0).reshape(2, 3, 4), **names}
    try:
        return plain(eval(expression, scope))
    except Exception as e:  # the answer is which one
        return failed(e)


def written(t: ModuleType, statement: str) -> Any:
    """x3() after a statement, or the kind of its error."""
    x = t.arange(24.0).reshape(2, 3, 4)
    try:
        exec(statement, {"t": t, "x": x})
    except Exception as e:
        return failed(e)
    return plain(x)


def gradient(t: ModuleType, expression: str, statement: str = "") -> Any:
    x = t.tensor([[0.5, 2.0, 2.0, -1.0], [0.0, 1.5, -1.0, 1.5], [3.0, 0.5, 3.0, 0.0]], requires_grad=True)
    scope = {"t": t, "x": x}
    if statement:
        scope["y"] = x * 1
        exec(statement, scope)
    out = eval(expression, scope)
    (out * t.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
    return plain(x.grad)


def answers(t: ModuleType) -> dict[str, Any]:
    return (
        {e: read(t, e) for e in READS}
        | {s: written(t, s) for s in WRITES}
        | {f"d {e}": gradient(t, e) for e in GRADIENTS}
        | {f"d {s}": gradient(t, "y", s) for s in WRITTEN_GRADIENTS}
    )


if __name__ == "__main__":
    import torch

    rows = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in answers(torch).items()]
    PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
