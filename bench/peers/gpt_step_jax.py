#!/usr/bin/env python3
"""Times the GPT step of bench/gpt_step.cc in JAX: loss, gradients and AdamW in one jitted function.

    python3 -m venv venv && venv/bin/pip install jax
    venv/bin/python bench/peers/gpt_step_jax.py --size=tiny --threads=2

XLA's CPU client takes as many threads as the process may use cores, so `--threads` binds the process to so
many cores for each device. Parameters and moments are donated, so that the step writes them in place.
`--mesh=data=2` and `model=2` split the batch, or Megatron's way the weights, over two devices of the process;
XLA's partitioner does the rest.
"""

import functools
import math
import os
import sys

import gpt_sizes
import step_report


def init(key, size):
    """Parameters as a tree: the blocks' in one tree each, as a list, since XLA then sees each layer's own arrays."""
    hidden, layers = size["hidden"], size["layers"]
    keys = iter(jax.random.split(key, 4 * layers + 2))

    def normal(shape, scale=1.0):
        return 0.02 / scale * jax.random.normal(next(keys), shape, jnp.float32)

    def norm():
        return {"gamma": jnp.ones(hidden), "beta": jnp.zeros(hidden)}

    def linear(inputs, outputs, scale=1.0):
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return {"weight": normal((inputs,) + outputs, scale), "bias": jnp.zeros(outputs)}

    residual = math.sqrt(2 * layers)
    return {
        "table": normal((size["vocabulary"], hidden)),
        "positions": normal((size["length"], hidden)),
        "blocks": [{
            "norm1": norm(), "qkv": linear(hidden, (3, hidden)), "out": linear(hidden, hidden, residual),
            "norm2": norm(), "up": linear(hidden, 4 * hidden), "down": linear(4 * hidden, hidden, residual),
        } for _ in range(layers)],
        "norm": norm(),
    }


def normalize(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["gamma"] + p["beta"]


def layout_of(tree, mesh):
    """Where each parameter lies: whole on every device, or on an axis "model" by columns, then by rows."""
    whole, (axis,) = jax.sharding.PartitionSpec(), mesh.axis_names
    by_name = {
        "table": {"": (axis,)}, "qkv": {"weight": (None, None, axis), "bias": (None, axis)},
        "out": {"weight": (axis,)}, "up": {"weight": (None, axis), "bias": (axis,)}, "down": {"weight": (axis,)},
    } if axis == "model" else {}

    def spec(path, leaf):
        del leaf
        names = [str(key.key) for key in path if isinstance(key, jax.tree_util.DictKey)]
        found = by_name.get(names[-2] if len(names) > 1 else names[-1], {})
        dims = found.get(names[-1] if len(names) > 1 else "")
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*dims) if dims else whole)

    return jax.tree_util.tree_map_with_path(spec, tree)


def linear(p, x):
    return jnp.tensordot(x, p["weight"], 1) + p["bias"]


def attention(p, x, heads):
    batch, length, hidden = x.shape
    qkv = linear(p["qkv"], x)
    q, k, v = (qkv[:, :, i].reshape(batch, length, heads, -1) for i in range(3))
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return linear(p["out"], y.reshape(batch, length, hidden))


def loss_of(p, tokens, labels, heads):
    x = p["table"][tokens] + p["positions"]
    for block in p["blocks"]:
        x = x + attention(block, normalize(block["norm1"], x), heads)
        x = x + linear(block["down"], jax.nn.gelu(linear(block["up"], normalize(block["norm2"], x))))
    logits = normalize(p["norm"], x) @ p["table"].T
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()


def train_step(state, tokens, labels, heads):
    parameters, first, second, count = state
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens, labels, heads)
    count = count + 1
    beta1, beta2 = gpt_sizes.BETAS
    first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, second, gradients)
    scale1, scale2 = 1 / (1 - beta1**count), 1 / (1 - beta2**count)
    parameters = jax.tree.map(
        lambda p, m, v: p - gpt_sizes.RATE * (m * scale1) / (jnp.sqrt(v * scale2) + gpt_sizes.EPSILON),
        parameters, first, second)
    return (parameters, first, second, count), loss


def main():
    options = gpt_sizes.arguments(__doc__.splitlines()[0], ["jit"], ["data=2", "model=2"]).parse_args()
    axis, devices = options.mesh.split("=")
    # Before XLA is loaded, which counts cores and devices then.
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:options.threads * int(devices)]))
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=" + devices
    global jax, jnp
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        step_report.missing("gpt_step_jax", error, "pip install jax")
    jax.config.update("jax_platforms", "cpu")
    base_bytes = step_report.resident_bytes()
    size = gpt_sizes.size_of(options)
    mesh = jax.make_mesh((int(devices),), (axis,), (jax.sharding.AxisType.Auto,))
    parameters = init(jax.random.key(1), size)
    parameters = jax.device_put(parameters, layout_of(parameters, mesh))
    state = (parameters, jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters),
             jnp.zeros((), jnp.float32))
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis if axis == "data" else None))
    tokens, labels = (jax.device_put(jnp.array(each, jnp.int32), rows) for each in gpt_sizes.tokens_and_labels(size))
    jitted = jax.jit(functools.partial(train_step, heads=size["heads"]), donate_argnums=0)

    def step():
        nonlocal state
        state, loss = jitted(state, tokens, labels)
        jax.block_until_ready(state)
        return float(loss)

    del parameters
    gpt_sizes.report("jax", jax.__version__, options, step, count, base_bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
