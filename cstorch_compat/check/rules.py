"""The rules of the check, one record each: what it is about, why it matters, the way out, and how we know."""

from dataclasses import dataclass

LIMITS = 'Cerebras documentation, "Limitations of PyTorch on Cerebras"'
RECORDED = "answer of cerebras_pytorch 2.10.0, recorded on its CSX backend with validate_only=True"
FIELD = "field report of a CS-3 bring-up on release 2.10 (github.com/wilkieolin/nubun, cerebras/CS3_BRINGUP.md)"
LOADERS = 'Cerebras documentation, "Creating custom dataloaders"'
CHECKPOINTS = 'Cerebras documentation, "Saving and loading checkpoints"'
LOOP = 'Cerebras documentation, "Writing a custom training loop"'
OURS = "a limit of lazywafer, not of the system"


@dataclass(frozen=True)
class Rule:
    """One kind of finding.

    `severity` is "refused" (the stack raises an error on the client), "risk" (it compiles on the client, and is known
    to fail or to misbehave later) or "note".
    """

    id: str
    key: str
    severity: str
    title: str
    why: str
    way_out: str
    source: str


_ROWS = (
    # -- refused: values that do not exist while a step is traced ------------------------------------------------------
    Rule(
        "LW101",
        "read",
        "refused",
        "a tensor's value is read inside the step",
        "While the step is traced its tensors have no values: `aten::_local_scalar_dense` is not supported.",
        "Choose with torch.where(...) in the step, or pass the tensor to a @cstorch.step_closure and read it there.",
        LIMITS,
    ),
    Rule(
        "LW102",
        "print",
        "refused",
        "a tensor is printed or formatted inside the step",
        "Trying to materialize a tensor outside of a step closure: there is nothing to print while tracing.",
        "Print it in a @cstorch.step_closure that takes the tensor.",
        LIMITS,
    ),
    Rule(
        "LW103",
        "numpy",
        "refused",
        "a tensor becomes a NumPy array inside the step",
        "A lazy tensor has no memory on the client that NumPy could see (TypeError).",
        "Compute with torch in the step, or call .numpy() in a @cstorch.step_closure.",
        RECORDED,
    ),
    Rule(
        "LW104",
        "to cpu",
        "refused",
        "a tensor is moved to the CPU inside the step",
        'Trying to materialize a tensor outside of a step closure: .to("cpu") and .cpu() need the value.',
        "Keep it on the device; a @cstorch.step_closure gets it on the CPU by itself.",
        LIMITS,
    ),
    Rule(
        "LW105",
        "shape from data",
        "refused",
        "the shape of a result depends on values",
        "The graph is compiled ahead of time; every shape in it must be known (`aten::nonzero` has no shape).",
        "Keep the shape and mask instead: torch.where(mask, x, 0), and divide by mask.sum().",
        RECORDED,
    ),
    Rule(
        "LW106",
        "decay",
        "refused",
        "a traced tensor is passed where a Python number is expected",
        "The tensor would have to become a number while the step is traced: an error, or a random value.",
        "Write the arithmetic out with tensors, as in x + t * y instead of torch.add(x, y, alpha=t).",
        LIMITS,
    ),
    Rule(
        "LW107",
        "counting",
        "refused",
        "one_hot or bincount",
        "Both read a value to find the number of classes (`aten::_local_scalar_dense`, `aten::bincount`).",
        "Compare instead: (index.unsqueeze(-1) == torch.arange(classes, device=index.device)).",
        RECORDED,
    ),
    Rule(
        "LW108",
        "triangle of bool",
        "refused",
        "triu of a bool tensor",
        "The backend subtracts a lower triangle, and bool tensors cannot be subtracted.",
        "Build the mask by comparing: torch.arange(n)[:, None] < torch.arange(n).",
        RECORDED,
    ),
    # -- refused: how the run is put together --------------------------------------------------------------------------
    Rule(
        "LW110",
        "device",
        "refused",
        "tensors of different devices meet",
        "Detected tensor arguments with incompatible devices: one is on the client, one on the wafer.",
        "Prepare the model with cstorch.compile(model, backend); make constants with device=x.device in the step, "
        "or register them as buffers.",
        RECORDED,
    ),
    Rule(
        "LW111",
        "outside trace",
        "refused",
        "an operation runs in the loop, outside the traced function",
        'New output detected outside of "@cstorch.trace" decorator: what is not traced cannot run on the wafer.',
        "Move it into the function decorated with @cstorch.trace, or into a @cstorch.step_closure.",
        RECORDED,
    ),
    Rule(
        "LW112",
        "batch sizes",
        "refused",
        "the tensors of a batch differ in their first dimension",
        "Only uniform batch sizes are supported in CS runs; the batch is the first dimension of every input.",
        "Give every tensor of the batch the batch as first dimension; expand scalars.",
        RECORDED,
    ),
    Rule(
        "LW113",
        "no outputs",
        "refused",
        "the step computes nothing that is kept",
        "The compiled model has no computational graph: no tensor is an output and no state changes.",
        "Pass a result of the traced function, such as the loss, to a @cstorch.step_closure.",
        RECORDED,
    ),
    Rule(
        "LW114",
        "api",
        "refused",
        "the API refuses this call",
        "The call raises the same error on the system.",
        "See the message.",
        RECORDED,
    ),
    # -- refused: operations -------------------------------------------------------------------------------------------
    Rule(
        "LW201",
        "no kernel",
        "refused",
        "the CSX backend does not have this operation",
        "The Cerebras backend does not yet support the operation; tracing stops here.",
        "Write it with operations that are supported, or move it to the data loader or a @cstorch.step_closure.",
        RECORDED,
    ),
    Rule(
        "LW202",
        "no lowering",
        "refused",
        "the operation cannot be lowered to CIRH",
        "The step is traced, and then the front end's lowering rejects the operation.",
        "Write it with elementary operations: arithmetic, matmul, softmax, where, sums.",
        RECORDED,
    ),
    Rule(
        "LW203",
        "dtype",
        "refused",
        "CIRH does not have this dtype",
        "Supported dtypes are bf16, f16, f32, i16, i32, i64 and bool.",
        "Convert before the step: .float() or .int() in the data loader.",
        RECORDED,
    ),
    Rule(
        "LW204",
        "no gradient",
        "refused",
        "the gradient of this operation cannot be lowered",
        "The forward operation is fine; what backward() makes of it is rejected.",
        "Detach it from the gradient, or write it with elementary operations.",
        RECORDED,
    ),
    Rule(
        "LW205",
        "unknown name",
        "refused",
        "no such name",
        "Neither PyTorch nor the Cerebras API has this name (AttributeError).",
        "Check the spelling and the release that has it.",
        "PyTorch and Cerebras API inventories",
    ),
    # -- risks: it compiles on the client and fails on the cluster -----------------------------------------------------
    Rule(
        "LW301",
        "fused attention",
        "risk",
        "fused attention",
        "The fused attention kernel is known to fail in the cluster's compile (empty CIRH module, aamatmul assertion).",
        "Write attention out: three nn.Linear for q, k, v, and softmax(q @ k.transpose(-2, -1) * scale) @ v.",
        FIELD,
    ),
    Rule(
        "LW302",
        "big vocabulary",
        "risk",
        "cross entropy over a big vocabulary",
        "The fused loss is known to fail in placement (wgth.cast over the vocabulary).",
        "Use F.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)), with a mask for ignored targets.",
        FIELD,
    ),
    Rule(
        "LW303",
        "norm of weights",
        "risk",
        "a norm over data that comes from weights alone",
        "The wafer streams samples; a norm whose input has no batch has no kernel (Failed to convert op to WAF).",
        "Normalize something that depends on the batch, or write mean, variance and rsqrt out.",
        FIELD,
    ),
    Rule(
        "LW304",
        "slice of weight",
        "risk",
        "a parameter or buffer is sliced",
        "Weights stream whole: Unable to insert transfer WGT_HOST to WSE.",
        "Make separate parameters (one nn.Linear each), or select by a one-hot matmul.",
        FIELD,
    ),
    Rule(
        "LW305",
        "transposed weight",
        "risk",
        "a product with an explicitly transposed weight",
        "The transposed copy of a weight is known to fail in transfer and placement.",
        "Use F.linear(x, weight), which is the same product.",
        FIELD,
    ),
    Rule(
        "LW306",
        "indexed weight",
        "risk",
        "a weight is indexed by a tensor",
        "Indexing a weight gathers from it on the wafer, which is known to fail in placement.",
        "Use F.embedding(index, weight) or nn.Embedding, or a one-hot matmul.",
        FIELD,
    ),
    Rule(
        "LW307",
        "slice",
        "risk",
        "a tensor is sliced inside the step",
        "The slice kernel is known to assert on the cluster (slice_filter), for activations of every dtype.",
        "Slice in the data loader, keep the whole tensor and mask, or make separate layers instead of splitting one.",
        FIELD,
    ),
    Rule(
        "LW308",
        "cat of bool",
        "risk",
        "bool tensors are concatenated",
        "The concat kernel rejects i1.",
        "Concatenate int32 masks, and compare with 0 afterwards.",
        FIELD,
    ),
    Rule(
        "LW309",
        "arange as index",
        "risk",
        "constant numbers are used as a gather index",
        "An i64 constant such as arange has no layout on its way to the wafer (no valid layouts).",
        "Give the positions with the batch, or select by a one-hot matmul: (p[:, None] == arange(n)).float() @ weight.",
        FIELD,
    ),
    Rule(
        "LW310",
        "nothing fetched",
        "risk",
        "the step fetches nothing",
        "A step without a fetched output is removed as dead code (Cannot compile empty CIRH module).",
        "Pass the loss to a @cstorch.step_closure in every step.",
        FIELD,
    ),
    # -- risks: it runs and does something else ------------------------------------------------------------------------
    Rule(
        "LW401",
        "state in step",
        "risk",
        "state is first made inside the step",
        "A tensor without an identity before the first step is made anew, as zeros, in every step.",
        "Make it before tracing: in preinitialize() of the optimizer, or with register_buffer in the module.",
        LIMITS,
    ),
    Rule(
        "LW402",
        "step changes",
        "risk",
        "the traced step is not the same in every iteration",
        "Python code is frozen as it was in the first step; what it does later never reaches the wafer.",
        "Make what changes a tensor: torch.where for branches, a tensor of the global step for schedules and counters.",
        LIMITS,
    ),
    Rule(
        "LW403",
        "side effect",
        "risk",
        "a Python side effect in the traced function",
        "The function runs once, when it is traced, and not in every step.",
        "Move it into a @cstorch.step_closure, or into the loop.",
        LIMITS,
    ),
    Rule(
        "LW404",
        "uneven batches",
        "risk",
        "the last batch is smaller than the others",
        "The graph has one batch size; a loader without drop_last=True ends with a batch that does not fit.",
        "Pass drop_last=True to the DataLoader.",
        LOADERS,
    ),
    Rule(
        "LW405",
        "vanilla optimizer",
        "risk",
        "an optimizer of torch.optim",
        "Its state is not made before the step, so that it is zero again in every step on the wafer.",
        "Use the optimizer of the same name in cstorch.optim, made before the first step.",
        LIMITS,
    ),
    Rule(
        "LW406",
        "python learning rate",
        "risk",
        "the learning rate is a Python number that changes",
        "The number of the first step is compiled into the graph and stays.",
        "Use a schedule of cstorch.optim.lr_scheduler, which is a tensor of the global step.",
        LIMITS,
    ),
    Rule(
        "LW407",
        "weights in closure",
        "risk",
        "a step closure needs weights",
        "Weights can be fetched on checkpoint steps only.",
        "Use @cstorch.checkpoint_closure, and give the executor checkpoint_steps.",
        CHECKPOINTS,
    ),
    Rule(
        "LW409",
        "batch dtype",
        "risk",
        "the batch has a dtype that the wafer does not compute in",
        "Inputs are bf16, f16, f32, i16, i32, i64 or bool; float64 is rejected as soon as it meets arithmetic.",
        "Convert in the data set or in a transform, with .float() for example.",
        RECORDED,
    ),
    Rule(
        "LW410",
        "print text",
        "risk",
        "print in the traced function",
        "It prints once, while the step is traced, and never again.",
        "Print in a @cstorch.step_closure or in the loop.",
        LIMITS,
    ),
    Rule(
        "LW411",
        "closure never runs",
        "risk",
        "a checkpoint closure that is never called",
        "The executor has no checkpoint_steps, so that no step is a checkpoint step.",
        "Pass checkpoint_steps=N to the DataExecutor; the last step then counts too.",
        CHECKPOINTS,
    ),
    Rule(
        "LW311",
        "lowering here",
        "risk",
        "an operation that no record covers",
        "lazywafer's own lowering to CIRH rejects it, and what the original does with it was not recorded.",
        "Write it with elementary operations, or try it with validate_only on the system's software.",
        OURS,
    ),
    # -- notes ---------------------------------------------------------------------------------------------------------
    Rule(
        "LW501",
        "missing here",
        "note",
        "lazywafer does not have this name",
        "The name exists in the original; what it does could not be judged, and a stand-in took its place.",
        "Check this part by hand.",
        OURS,
    ),
    Rule(
        "LW502",
        "port",
        "note",
        "plain PyTorch: this is where the Cerebras API goes",
        "Without it nothing runs on the wafer.",
        "See the detail.",
        LOOP,
    ),
)

RULES: dict[str, Rule] = {rule.key: rule for rule in _ROWS}
