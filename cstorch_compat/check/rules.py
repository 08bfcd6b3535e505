"""The table of rules of `lazywafer check`: what a finding means, why it matters, the way out, and the source."""

from dataclasses import dataclass

SOURCE_LIMITATIONS = 'Cerebras documentation, "Limitations of PyTorch on Cerebras"'
SOURCE_RECORDED_ANSWER = "answer of cerebras_pytorch 2.10.0, recorded on its CSX backend with validate_only=True"
SOURCE_FIELD_REPORT = (
    "field report of a CS-3 bring-up on release 2.10 (github.com/wilkieolin/nubun, cerebras/CS3_BRINGUP.md)"
)
SOURCE_DATALOADER_GUIDE = 'Cerebras documentation, "Creating custom dataloaders"'
SOURCE_CHECKPOINT_GUIDE = 'Cerebras documentation, "Saving and loading checkpoints"'
SOURCE_TRAINING_LOOP_GUIDE = 'Cerebras documentation, "Writing a custom training loop"'
SOURCE_LAZYWAFER_LIMIT = "a limit of lazywafer, not of the system"


@dataclass(frozen=True)
class CheckRule:
    """One kind of finding.

    id: "LW" and three digits
    key: the name of the rule in the code
    severity: "refused" (the client raises an error), "risk" (compiles on the client and fails or misbehaves later) or
        "note"
    title: one line that says what was found
    why: the reason
    way_out: what to do instead
    source: where the rule comes from, such as the vendor's documentation or a recorded error
    """

    id: str
    key: str
    severity: str
    title: str
    why: str
    way_out: str
    source: str


# The first digit of an id gives the severity: 1 and 2 are refused, 3 and 4 are risks, 5 is a note.
_ROWS = (
    # Refused: reading values that do not exist while a step is traced.
    CheckRule(
        id="LW101",
        key="read",
        severity="refused",
        title="a tensor's value is read inside the step",
        why="Tensors have no values while the step is traced (`aten::_local_scalar_dense` is not supported).",
        way_out="Choose with torch.where(...) in the step, or pass the tensor to a @cstorch.step_closure and "
        "read it there.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW102",
        key="print",
        severity="refused",
        title="a tensor is printed or formatted inside the step",
        why="Tensors have no values while the step is traced. The error is: Trying to materialize a tensor outside of "
        "a step closure.",
        way_out="Print it in a @cstorch.step_closure that takes the tensor.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW103",
        key="numpy",
        severity="refused",
        title="a tensor becomes a NumPy array inside the step",
        why="A lazy tensor has no data on the client, so NumPy raises TypeError.",
        way_out="Compute with torch in the step, or call .numpy() in a @cstorch.step_closure.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW104",
        key="to cpu",
        severity="refused",
        title="a tensor is moved to the CPU inside the step",
        why='.to("cpu") and .cpu() need values. The error is: Trying to materialize a tensor outside of a step '
        "closure.",
        way_out="Keep the tensor on the device, and pass it to a @cstorch.step_closure, which gets it on the CPU.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW105",
        key="shape from data",
        severity="refused",
        title="the shape of a result depends on values",
        why="The graph is compiled ahead of time, so every shape must be known (`aten::nonzero` has no static shape).",
        way_out="Keep the shape and mask instead: torch.where(mask, x, 0), and divide by mask.sum().",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW106",
        key="decay",
        severity="refused",
        title="a traced tensor is passed where a Python number is expected",
        why="A traced tensor has no value, so its conversion to a number fails or gives an arbitrary value.",
        way_out="Write the arithmetic out with tensors, as in x + t * y instead of torch.add(x, y, alpha=t).",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW107",
        key="counting",
        severity="refused",
        title="one_hot or bincount is called",
        why="Both read a value to find the number of classes (`aten::_local_scalar_dense`, `aten::bincount`).",
        way_out="Compare instead: (index.unsqueeze(-1) == torch.arange(classes, device=index.device)).",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW108",
        key="triangle of bool",
        severity="refused",
        title="triu is called on a bool tensor",
        why="The backend subtracts a lower triangle, and bool tensors cannot be subtracted.",
        way_out="Build the mask by comparing: torch.arange(n)[:, None] < torch.arange(n).",
        source=SOURCE_RECORDED_ANSWER,
    ),
    # Refused: wrong use of the API.
    CheckRule(
        id="LW110",
        key="device",
        severity="refused",
        title="an operation has tensors on different devices",
        why="One tensor is on the client, and one is on the wafer. The error is: Detected tensor arguments with "
        "incompatible devices.",
        way_out="Prepare the model with cstorch.compile(model, backend). Create constants with device=x.device in the "
        "step, or register them as buffers.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW111",
        key="outside trace",
        severity="refused",
        title="an operation runs in the loop, outside the traced function",
        why='Only traced operations run on the wafer. The error is: New output detected outside of "@cstorch.trace" '
        "decorator.",
        way_out="Move it into the function decorated with @cstorch.trace, or into a @cstorch.step_closure.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW112",
        key="batch sizes",
        severity="refused",
        title="the tensors of a batch differ in their first dimension",
        why="The batch is the first dimension of every input. The error is: Only uniform batch sizes are supported in "
        "CS runs.",
        way_out="Make the batch size the first dimension of every tensor of the batch, and expand scalars.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW113",
        key="no outputs",
        severity="refused",
        title="the step has no output and changes no state",
        why="Without outputs and state changes, the compiled model has no computational graph.",
        way_out="Pass a result of the traced function, such as the loss, to a @cstorch.step_closure.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW114",
        key="api",
        severity="refused",
        title="the Cerebras API raises an error for this call",
        why="The call raises the same error on the system.",
        way_out="Change the call as the message describes.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW115",
        key="metric",
        severity="refused",
        title="CSX does not have this metric",
        why="AUCMetric, PrecisionAtKMetric and RecallAtKMetric raise NotImplementedError on the CSX backend.",
        way_out="Compute it on the client, in a @cstorch.step_closure that takes labels and predictions.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW116",
        key="cb16 fetched",
        severity="refused",
        title="a cbfloat16 tensor is fetched",
        why="PyTorch has no CBFloat16, so the closure cannot get the tensor on the CPU.",
        way_out="Pass tensor.to(torch.float32), or set cstorch.backends.csx.debug.implicit_cast_cb16_to_fp32 = True.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW117",
        key="second model",
        severity="refused",
        title="two prepared models are called in one loop",
        why="Only a single compiled model may be used in a given forward pass.",
        way_out="Make the models parts of one torch.nn.Module, and pass this module to cstorch.compile.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW118",
        key="state access",
        severity="refused",
        title="a tensor is read or changed while the client does not have it",
        why="Weights and other state are sent to the client only on checkpoint steps, and results of a step only if a "
        "closure takes them.",
        way_out="Pass checkpoint_steps to the DataExecutor. The last step is then a checkpoint step, after which the "
        "state can be read and changed. In the loop, use a @cstorch.checkpoint_closure.",
        source=SOURCE_CHECKPOINT_GUIDE,
    ),
    # Refused: unsupported operations.
    CheckRule(
        id="LW201",
        key="no kernel",
        severity="refused",
        title="the CSX backend does not have this operation",
        why="The Cerebras backend does not yet support the operation, and tracing stops here.",
        way_out="Replace it by supported operations, or move it to the data loader or a @cstorch.step_closure.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW202",
        key="no lowering",
        severity="refused",
        title="the operation cannot be lowered to CIRH",
        why="The step is traced, and then the front end's lowering rejects the operation.",
        way_out="Write it with elementary operations: arithmetic, matmul, softmax, where, sums.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW203",
        key="dtype",
        severity="refused",
        title="CIRH does not have this dtype",
        why="Supported dtypes are bf16, f16, f32, i16, i32, i64 and bool.",
        way_out="Convert before the step: .float() or .int() in the data loader.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW204",
        key="no gradient",
        severity="refused",
        title="the gradient of this operation cannot be lowered",
        why="The forward operation is supported, but its gradient is rejected.",
        way_out="Detach the tensor, or write the operation with elementary operations.",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW205",
        key="not in this release",
        severity="refused",
        title="the name is of another release",
        why="The release of the API that the script is checked for does not have this name.",
        way_out="Use the replacement in this release, or pass --api RELEASE if the script is written for another one.",
        source="inventories of the releases of the Cerebras API",
    ),
    # Risks: compiles on the client and fails on the cluster.
    CheckRule(
        id="LW301",
        key="fused attention",
        severity="risk",
        title="fused attention is used",
        why="The fused attention kernel is known to fail in the compilation on the cluster (empty CIRH module, "
        "aamatmul assertion).",
        way_out="Write attention out: three nn.Linear for q, k, v, and softmax(q @ k.transpose(-2, -1) * scale) @ v.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW302",
        key="big vocabulary",
        severity="risk",
        title="cross entropy has a large vocabulary",
        why="The fused loss is known to fail in placement (wgth.cast over the vocabulary).",
        way_out="Use F.log_softmax(logits, -1).gather(-1, target.unsqueeze(-1)), with a mask for ignored targets.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW303",
        key="norm of weights",
        severity="risk",
        title="a norm is computed of weights only",
        why="The wafer streams samples, so a norm of an input without a batch has no kernel (Failed to convert op to "
        "WAF).",
        way_out="Normalize something that depends on the batch, or write mean, variance and rsqrt out.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW304",
        key="slice of weight",
        severity="risk",
        title="a parameter or buffer is sliced",
        why="A weight is sent to the wafer as a whole. The error is: Unable to insert transfer WGT_HOST to WSE.",
        way_out="Make separate parameters (one nn.Linear each), or select by a one-hot matmul.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW305",
        key="transposed weight",
        severity="risk",
        title="a matrix product has an explicitly transposed weight",
        why="The transposed copy of a weight is known to fail in transfer and placement.",
        way_out="Use F.linear(x, weight), which is the same product.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW306",
        key="indexed weight",
        severity="risk",
        title="a weight is indexed by a tensor",
        why="Indexing a weight gathers from it on the wafer, which is known to fail in placement.",
        way_out="Use F.embedding(index, weight) or nn.Embedding, or a one-hot matmul.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW307",
        key="slice",
        severity="risk",
        title="a tensor is sliced inside the step",
        why="The slice kernel is known to fail an assertion on the cluster (slice_filter), for activations of every "
        "dtype.",
        way_out="Slice in the data loader, keep the whole tensor and mask, or make separate layers instead of "
        "splitting one.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW308",
        key="cat of bool",
        severity="risk",
        title="bool tensors are concatenated",
        why="The concatenation kernel rejects bool (i1).",
        way_out="Concatenate int32 masks, and compare with 0 afterwards.",
        source=SOURCE_FIELD_REPORT,
    ),
    CheckRule(
        id="LW310",
        key="nothing fetched",
        severity="risk",
        title="the step has no fetched output",
        why="A step without a fetched output is removed as dead code (Cannot compile empty CIRH module).",
        way_out="Pass the loss to a @cstorch.step_closure in every step.",
        source=SOURCE_FIELD_REPORT,
    ),
    # Risks: runs, but computes something else.
    CheckRule(
        id="LW401",
        key="state in step",
        severity="risk",
        title="state is first created inside the step",
        why="State that does not exist before the first step is created again, as zeros, in every step.",
        way_out="Create it before tracing: in preinitialize() of the optimizer, or with register_buffer in the module.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW402",
        key="step changes",
        severity="risk",
        title="the traced step is not the same in every iteration",
        why="Python code runs when the step is traced. Different branches and values in later steps do not reach the "
        "wafer.",
        way_out="Use tensors for changing values: torch.where for branches, a tensor of the global step for schedules "
        "and counters.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW403",
        key="side effect",
        severity="risk",
        title="the traced function has a Python side effect",
        why="The function runs once, when it is traced, and not in every step.",
        way_out="Move it into a @cstorch.step_closure, or into the loop.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW404",
        key="uneven batches",
        severity="risk",
        title="the last batch is smaller than the others",
        why="The graph has one batch size, and the last batch of a loader without drop_last=True may be smaller.",
        way_out="Pass drop_last=True to the DataLoader.",
        source=SOURCE_DATALOADER_GUIDE,
    ),
    CheckRule(
        id="LW405",
        key="vanilla optimizer",
        severity="risk",
        title="an optimizer of torch.optim is used",
        why="Its state is created inside the step, so it is zero again in every step on the wafer.",
        way_out="Use the optimizer of the same name in cstorch.optim, and create it before the first step.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW406",
        key="python learning rate",
        severity="risk",
        title="the learning rate is a Python number that changes",
        why="The learning rate of the first step is compiled into the graph and does not change.",
        way_out="Use a schedule of cstorch.optim.lr_scheduler, which is a tensor of the global step.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW407",
        key="weights in closure",
        severity="risk",
        title="a step closure reads weights",
        why="Weights can only be fetched on checkpoint steps.",
        way_out="Use @cstorch.checkpoint_closure, and pass checkpoint_steps to the DataExecutor.",
        source=SOURCE_CHECKPOINT_GUIDE,
    ),
    CheckRule(
        id="LW409",
        key="batch dtype",
        severity="risk",
        title="the batch has a dtype that the wafer does not compute in",
        why="Inputs must be bf16, f16, f32, i16, i32, i64 or bool. Arithmetic on float64 is rejected.",
        way_out="Convert the batch in the data set or in a transform, for example with .float().",
        source=SOURCE_RECORDED_ANSWER,
    ),
    CheckRule(
        id="LW410",
        key="print text",
        severity="risk",
        title="print is called in the traced function",
        why="It prints once, while the step is traced, and never again.",
        way_out="Print in a @cstorch.step_closure or in the loop.",
        source=SOURCE_LIMITATIONS,
    ),
    CheckRule(
        id="LW411",
        key="closure never runs",
        severity="risk",
        title="a checkpoint closure is never called",
        why="The DataExecutor has no checkpoint_steps, so no step is a checkpoint step.",
        way_out="Pass checkpoint_steps=N to the DataExecutor. The last step is then a checkpoint step too.",
        source=SOURCE_CHECKPOINT_GUIDE,
    ),
    CheckRule(
        id="LW412",
        key="unknown name",
        severity="risk",
        title="the name is unknown",
        why="Neither PyTorch nor the Cerebras API has this name, so its use raises AttributeError. The check replaced "
        "it by a stand-in.",
        way_out="Check the spelling, and which release has the name.",
        source="inventories of PyTorch names that published scripts use, and of the Cerebras API",
    ),
    CheckRule(
        id="LW501",
        key="missing here",
        severity="note",
        title="lazywafer does not have this name",
        why="The original package has this name. The check replaced it by a stand-in, and cannot judge its effect.",
        way_out="Check this part by hand.",
        source=SOURCE_LAZYWAFER_LIMIT,
    ),
    CheckRule(
        id="LW502",
        key="port",
        severity="note",
        title="plain PyTorch: the Cerebras API is needed here",
        why="Without the Cerebras API nothing runs on the wafer.",
        way_out="Add the Cerebras API here.",
        source=SOURCE_TRAINING_LOOP_GUIDE,
    ),
    CheckRule(
        id="LW503",
        key="arange as index",
        severity="note",
        title="constant numbers are used as a gather index",
        why="One bring-up failed on an i64 constant without a layout (no valid layouts). The vendor's GPT gathers its "
        "positions in this way.",
        way_out="Change nothing unless the compilation fails here. Then pass the positions with the batch, or select "
        "by a one-hot matmul: (p[:, None] == arange(n)).float() @ weight.",
        source=SOURCE_FIELD_REPORT,
    ),
)

RULES: dict[str, CheckRule] = {rule.key: rule for rule in _ROWS}
"""The rules by key."""
