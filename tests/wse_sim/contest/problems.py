"""Small problems in the format of the ISPD-2020 contest, with numbers of our own."""

from hypothesis import strategies as st

HEADER = (
    "test={name}\nwidth={width}\nheight={height}\nwdeltat={time}\nwlength={wire}\nwadapter={adapter}\nmemlimit={memory}"
)

CHAIN = """(*
test=chain
width=64
height=48
wdeltat=1
wlength=1
wadapter=0
memlimit=4096
*)

(* Node Definitions *)
input[ 0] n=[16 16 8] name='k0'
conv[1] W=16 H=16 R=3 S=3 C=8 K=16 T=1 U=1 name='k1'
cblock[2] f=32 h=16 w=16 name='k2'
dblock[3] f=32 h=8 w=8 name='k3'
conv[4] W=8 H=8 R=1 S=1 C=32 K=12 T=1 U=1 name='k4'
output[5] n=[8 8 12] name='k5'

(* Connectivity *)
input[ 0]:_ -> conv[1]:x, shape:[16][16][8]
conv[1]:y\t->\tcblock[2]:x, shape:[16][16][16]
cblock[2]:y -> dblock[3]:x, shape:[8][8][32]
dblock[3]:y -> conv[4]:x, shape:[8][8][32]
conv[4]:y -> output[5]:_, shape:[8][8][12]
"""


def text(kernels, edges=(), width=64, height=48, memory=4096, wire=1, adapter=0):
    """A problem of kernel lines without their number and name, and pairs of positions."""
    kinds = [line.split()[0] for line in kernels]
    header = HEADER.format(name="own", width=width, height=height, time=1, wire=wire, adapter=adapter, memory=memory)
    nodes = [
        f"{k}[{n}] {line.split(' ', 1)[1]} name='k{n}'" for n, (k, line) in enumerate(zip(kinds, kernels, strict=True))
    ]
    links = [f"{kinds[a]}[{a}]:y -> {kinds[b]}[{b}]:x, shape:[1][1][1]" for a, b in edges]
    return "\n".join(["(*", header, "*)", *nodes, *links])


@st.composite
def kernel_lines(draw):
    side = st.sampled_from((1, 2, 5, 8, 12))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(("cblock", "dblock")))
        return f"{kind} f={4 * draw(st.integers(1, 8))} h={draw(side)} w={draw(side)}"
    filters, channels = st.sampled_from((1, 2, 3)), st.integers(1, 24)
    stride = draw(st.sampled_from((1, 2)))
    names = {"W": side, "H": side, "R": filters, "S": filters, "C": channels, "K": channels}
    fields = " ".join(f"{name}={draw(values)}" for name, values in names.items())
    return f"conv {fields} T={stride} U={stride}"


@st.composite
def problems(draw):
    """The text of a problem that may or may not fit its mesh."""
    kernels = draw(st.lists(kernel_lines(), min_size=1, max_size=6))
    position = st.integers(0, len(kernels) - 1)
    edges = draw(st.lists(st.tuples(position, position), max_size=8))
    size = st.integers(20, 70)
    return text(
        kernels, edges, draw(size), draw(size), draw(st.sampled_from((512, 4096))), adapter=draw(st.integers(0, 3))
    )
