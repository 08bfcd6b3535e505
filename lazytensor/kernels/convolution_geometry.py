"""Where each number lies in the geometry that compiled convolutions read: names of places in one array."""

NAMES = (
    "images channels results groups extents steps phases starts box out_extents out_steps problems problem_list taps "
    "offsets all_taps band bands images_each groups_each results_each chunks image weight_group weight_result "
    "weight_channel sums pitch together rows_each low down across tiles tap pieces"
).split()
_WIDTH = {"low": 3, "extents": 3, "steps": 3, "box": 3, "out_extents": 3, "out_steps": 3}
PLACES = {name: sum(_WIDTH.get(n, 1) for n in NAMES[:k]) for k, name in enumerate(NAMES)}
SIZE = sum(_WIDTH.get(n, 1) for n in NAMES)

IMAGES, CHANNELS, RESULTS, GROUPS = (PLACES[n] for n in ("images", "channels", "results", "groups"))
"""Images in the batch; channels read and results given by each group of channels."""
EXTENTS, STEPS, PHASES, STARTS = (PLACES[n] for n in ("extents", "steps", "phases", "starts"))
"""The images that are read: extents, the step between elements of a phase, the phases, where they start."""
BOX, BAND, BANDS = PLACES["box"], PLACES["band"], PLACES["bands"]
"""Extents of a phase with its padding, rows of results computed at a time, and how often."""
OUT_EXTENTS, OUT_STEPS = PLACES["out_extents"], PLACES["out_steps"]
PROBLEMS, PROBLEM_LIST = PLACES["problems"], PLACES["problem_list"]
"""A problem is a row of eight: first and last tap, start in the result, counts."""
TAPS, OFFSETS, ALL_TAPS = PLACES["taps"], PLACES["offsets"], PLACES["all_taps"]
"""The weight's number of each tap, the shift in the box of each channel and tap."""
CHUNKS, IMAGES_EACH, GROUPS_EACH, RESULTS_EACH = (
    PLACES[n] for n in ("chunks", "images_each", "groups_each", "results_each")
)
IMAGE = PLACES["image"]
"""Elements that an image takes in the thread's own memory; behind it lies what the tiles give."""
WEIGHT_GROUP, WEIGHT_RESULT, WEIGHT_CHANNEL = (PLACES[f"weight_{n}"] for n in ("group", "result", "channel"))
SUMS, PITCH = PLACES["sums"], PLACES["pitch"]
"""How many partial sums a gradient of weights has, and the length of a row of one."""
TOGETHER, ROWS_EACH = PLACES["together"], PLACES["rows_each"]
"""How many images lie behind each other in a gradient of weights, and of how many rows a part adds the partial sums."""
LOW, DOWN, ACROSS, TILES, TAP, PIECES = (PLACES[n] for n in ("low", "down", "across", "tiles", "tap", "pieces"))
"""In Winograd's domain: padding before an image, its tiles down and across, room for tiles, the weight's first tap; in
how many pieces a partial sum is computed, of some channels each."""
