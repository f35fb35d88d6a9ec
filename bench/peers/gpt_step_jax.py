#!/usr/bin/env python3
"""Times the GPT step of bench/gpt_step.cc in JAX: loss, gradients and AdamW in one jitted function.

    python3 -m venv venv && venv/bin/pip install jax
    venv/bin/python bench/peers/gpt_step_jax.py --size=tiny --threads=2

XLA's CPU client takes as many threads as the process may use cores, so `--threads` binds the process to so
many cores. Parameters and moments are donated, so that the step writes them in place.
"""

import functools
import math
import os
import sys

import gpt_sizes


def init(key, size):
    """Parameters as a tree: the blocks' in one tree each, as a list, since XLA then sees each layer's own arrays."""
    hidden, layers = size["hidden"], size["layers"]
    keys = iter(jax.random.split(key, 4 * layers + 2))

    def normal(shape, scale=1.0):
        return 0.02 / scale * jax.random.normal(next(keys), shape, jnp.float32)

    def norm():
        return {"gamma": jnp.ones(hidden), "beta": jnp.zeros(hidden)}

    def linear(inputs, outputs, scale=1.0):
        return {"weight": normal((inputs, outputs), scale), "bias": jnp.zeros(outputs)}

    residual = math.sqrt(2 * layers)
    return {
        "table": normal((size["vocabulary"], hidden)),
        "positions": normal((size["length"], hidden)),
        "blocks": [{
            "norm1": norm(), "qkv": linear(hidden, 3 * hidden), "out": linear(hidden, hidden, residual),
            "norm2": norm(), "up": linear(hidden, 4 * hidden), "down": linear(4 * hidden, hidden, residual),
        } for _ in range(layers)],
        "norm": norm(),
    }


def normalize(p, x):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean)**2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["gamma"] + p["beta"]


def linear(p, x):
    return x @ p["weight"] + p["bias"]


def attention(p, x, heads):
    batch, length, hidden = x.shape
    q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(linear(p["qkv"], x), 3, axis=-1))
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
    options = gpt_sizes.arguments(__doc__.splitlines()[0], ["jit"]).parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:options.threads]))
    global jax, jnp  # only now: XLA counts the cores when it is loaded
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        gpt_sizes.missing("gpt_step_jax", error, "pip install jax")
    jax.config.update("jax_platforms", "cpu")
    base_bytes = gpt_sizes.resident_bytes()
    size = gpt_sizes.SIZES[options.size]
    parameters = init(jax.random.key(1), size)
    state = (parameters, jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters),
             jnp.zeros((), jnp.float32))
    count = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    tokens, labels = (jnp.array(rows, jnp.int32) for rows in gpt_sizes.tokens_and_labels(size))
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
