"""What the GPT step is that bench/gpt_step.cc and its peers time.

Used by gpt_step_torch.py, gpt_step_jax.py and gpt_step_oneflow.py; only the standard library.
"""

import step_report

# As in bench/gpt_step.cc; report.py compares the numbers of parameters that come of it.
SIZES = {
    "tiny": dict(layers=4, hidden=256, heads=4, length=128, batch=8, vocabulary=256),
    "default": dict(layers=6, hidden=192, heads=6, length=128, batch=16, vocabulary=256),
    "small": dict(layers=12, hidden=768, heads=12, length=256, batch=4, vocabulary=50304),
    # As in bench/gpu_models.cc.
    "gpt2_124m": dict(layers=12, hidden=768, heads=12, length=1024, batch=16, vocabulary=50304),
    "gpt2_350m": dict(layers=24, hidden=1024, heads=16, length=1024, batch=8, vocabulary=50304),
}
RATE, BETAS, EPSILON = 3e-4, (0.9, 0.95), 1e-8  # AdamW without decay; no clip, no dropout


def arguments(description, modes, meshes=(), precisions=()):
    parser = step_report.arguments(description, modes, meshes, precisions)
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    return parser


def size_of(options):
    """The size whose batch is that of all devices together."""
    axis, count = options.mesh.split("=")
    size = dict(SIZES[options.size])
    size["batch"] *= int(count) if axis == "data" else 1
    return size


def tokens_and_labels(size):
    """The same for every step, as lists of rows; a step that does not learn them does not train."""
    state = 12345
    rows = []
    for _ in range(2 * size["batch"]):
        row = []
        for _ in range(size["length"]):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            row.append((state >> 33) % size["vocabulary"])
        rows.append(row)
    return rows[:size["batch"]], rows[size["batch"]:]


def report(framework, version, options, run_step, parameters, base_bytes, more=dict):
    size = size_of(options)
    step_report.report("gpt_step", options.size, ("tokens", size["batch"] * size["length"]), framework, version, options, run_step,
                       parameters, base_bytes, more)
