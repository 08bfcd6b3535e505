"""Stacks of products by BLAS: machine code that cuts each into tiles and calls BLAS for them."""

PRODUCT = ("cblas", "transpose_a", "transpose_b", "m", "n", "k", "a", "pitch_a", "b", "pitch_b", "c", "pitch_c")
STACK = (
    "count",
    "stride_a",
    "stride_b",
    "stride_c",
    "tile_m",
    "tile_n",
    "tile_k",
    "step_a",
    "step_b",
    "deep_a",
    "deep_b",
)
"""The argument of a product: its words in this order; in bytes are the strides between the matrices of a stack, and the
steps from one row of a, and from one column of b, to the next, and those along the sums."""

_TEXT = """
declare i64 @llvm.smin.i64(i64, i64)
define void @share_product(ptr %words) {{
entry:
{loads}
  br label %head
head:
  %s = phi i64 [ 0, %entry ], [ %next, %done ]
  %over = icmp eq i64 %s, %count
  br i1 %over, label %out, label %stack
stack:
  ; From product to product of the stack each operand goes on by its own stride, in bytes.
{places}
  br label %sums
sums:
  ; A long sum is made of pieces: of each, what the tiles read stays in a cache.
  %d = phi i64 [ 0, %stack ], [ %deeper, %piece ]
  %is_piece = icmp slt i64 %d, %k
  br i1 %is_piece, label %sum, label %done
sum:
  %left_k = sub i64 %k, %d
  %depth = call i64 @llvm.smin.i64(i64 %left_k, i64 %tile_k)
  %is_first = icmp eq i64 %d, 0
  %beta = select i1 %is_first, float 0.0, float 1.0
  %down_a = mul i64 %d, %deep_a
  %r_a = getelementptr i8, ptr %q_a, i64 %down_a
  %down_b = mul i64 %d, %deep_b
  %r_b = getelementptr i8, ptr %q_b, i64 %down_b
  br label %rows
rows:
  %i = phi i64 [ 0, %sum ], [ %below, %row ]
  %is_row = icmp slt i64 %i, %m
  br i1 %is_row, label %columns, label %piece
columns:
  %j = phi i64 [ 0, %rows ], [ %beside, %tile ]
  %is_tile = icmp slt i64 %j, %n
  br i1 %is_tile, label %tile, label %row
tile:
  ; Rows of a and columns of b are as many bytes apart as their steps say, transposed or not.
  %far_a = mul i64 %i, %step_a
  %p_a = getelementptr i8, ptr %r_a, i64 %far_a
  %far_b = mul i64 %j, %step_b
  %p_b = getelementptr i8, ptr %r_b, i64 %far_b
  %line = mul i64 %i, %pitch_c
  %place = add i64 %line, %j
  %p_c = getelementptr float, ptr %q_c, i64 %place
  ; The last tiles of a row and of a column are what is left.
  %left = sub i64 %m, %i
  %height = call i64 @llvm.smin.i64(i64 %left, i64 %tile_m)
  %rest = sub i64 %n, %j
  %width = call i64 @llvm.smin.i64(i64 %rest, i64 %tile_n)
  ; 101 is row-major order, as cblas.h has it.
  call void %cblas(i32 101, i32 %flip_a, i32 %flip_b, i64 %height, i64 %width, i64 %depth,
    float 1.0, ptr %p_a, i64 %pitch_a, ptr %p_b, i64 %pitch_b, float %beta, ptr %p_c, i64 %pitch_c)
  %beside = add i64 %j, %tile_n
  br label %columns
row:
  %below = add i64 %i, %tile_m
  br label %rows
piece:
  %deeper = add i64 %d, %tile_k
  br label %sums
done:
  %next = add i64 %s, 1
  br label %head
out:
  ret void
}}
"""


def stack_of_products() -> str:
    """The function that runs a stack of products by BLAS, each tile by tile, from the words of its argument."""
    words = (*PRODUCT, *STACK)
    loads = [f"  %at_{w} = getelementptr i64, ptr %words, i64 {k}" for k, w in enumerate(words)]
    pointers = ("cblas", "a", "b", "c")
    loads += [f"  %{w} = load {'ptr' if w in pointers else 'i64'}, ptr %at_{w}" for w in words]
    loads += [f"  %flip_{x} = trunc i64 %transpose_{x} to i32" for x in "ab"]
    places = [
        f"  %skip_{x} = mul i64 %s, %stride_{x}\n  %q_{x} = getelementptr i8, ptr %{x}, i64 %skip_{x}" for x in "abc"
    ]
    return _TEXT.format(loads="\n".join(loads), places="\n".join(places))
