"""Indices of the numbers in the geometry that compiled convolutions read."""

NAMES = (
    "images channels results groups extents steps phases starts box out_extents out_steps problems problem_list taps "
    "offsets all_taps band bands images_each groups_each results_each chunks image weight_group weight_result "
    "weight_channel sums pitch together rows_each low down across tiles tap pieces"
).split()
_WIDTH = {"low": 3, "extents": 3, "steps": 3, "box": 3, "out_extents": 3, "out_steps": 3}
PLACES = {name: sum(_WIDTH.get(n, 1) for n in NAMES[:k]) for k, name in enumerate(NAMES)}
SIZE = sum(_WIDTH.get(n, 1) for n in NAMES)

IMAGES, CHANNELS, RESULTS, GROUPS = (PLACES[n] for n in ("images", "channels", "results", "groups"))
"""Images in the batch; input and result channels of each group; groups."""
EXTENTS, STEPS, PHASES, STARTS = (PLACES[n] for n in ("extents", "steps", "phases", "starts"))
"""Of the input images: extents; steps between elements of a phase; number of phases; where the list of starts
begins.
"""
BOX, BAND, BANDS = PLACES["box"], PLACES["band"], PLACES["bands"]
"""Extents of a phase with its padding; rows of results computed at a time; number of such bands."""
OUT_EXTENTS, OUT_STEPS = PLACES["out_extents"], PLACES["out_steps"]
PROBLEMS, PROBLEM_LIST = PLACES["problems"], PLACES["problem_list"]
"""Number of problems, and where their list begins.

A problem is a row of eight numbers: first tap and end of taps, start in the result (3), number of results (3).
"""
TAPS, OFFSETS, ALL_TAPS = PLACES["taps"], PLACES["offsets"], PLACES["all_taps"]
"""Where the list of taps begins (the weight index of each); where the list of offsets begins (the shift in the box for
each channel and tap); the number of taps of all problems.
"""
CHUNKS, IMAGES_EACH, GROUPS_EACH, RESULTS_EACH = (
    PLACES[n] for n in ("chunks", "images_each", "groups_each", "results_each")
)
IMAGE = PLACES["image"]
"""Elements that an image takes in the thread's scratch buffer; the results of the tiles follow it."""
WEIGHT_GROUP, WEIGHT_RESULT, WEIGHT_CHANNEL = (PLACES[f"weight_{n}"] for n in ("group", "result", "channel"))
SUMS, PITCH = PLACES["sums"], PLACES["pitch"]
"""Number of partial sums of a weight gradient, and the length of a row of one."""
TOGETHER, ROWS_EACH = PLACES["together"], PLACES["rows_each"]
"""Number of images that are concatenated for a weight gradient, and the rows of partial sums that a part adds."""
LOW, DOWN, ACROSS, TILES, TAP, PIECES = (PLACES[n] for n in ("low", "down", "across", "tiles", "tap", "pieces"))
"""For Winograd's algorithm: padding before an image; rows and columns of tiles in an image; tiles that the scratch
buffer holds; the weight's first tap; number of channel pieces in which a partial sum is computed.
"""
