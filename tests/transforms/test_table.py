"""Every transformation of JAX on every entry point: `docs/transformations.md`.

As tests, the cells of the JAX at hand must be as the table says. As a script,

    python tests/transforms/test_table.py PYTHON...

runs the cells in each interpreter, one per version of JAX, and writes the table.
"""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax import lax
from jax.custom_batching import custom_vmap  # noqa: F401  (JAX registers rules on import)
from jax.experimental import pallas as pl
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as Spec

TABLE = pathlib.Path(__file__).parents[2] / "docs" / "transformations.md"
P = pallas_rs.Params()
ROWS, COLUMNS = 4, 8

# ── entry points ────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass(frozen=True)
class Entry:
    """A kernel that computes `sin(x) * (row + 1)`, and how its launch is spelt."""

    name: str
    f: Callable
    # The run-time bound, where there is one, is an operand.
    bounded: Callable | None = None

    def __call__(self, x):
        return self.f(x)


def twin(x):
    return jnp.sin(x) * (jnp.arange(x.shape[0], dtype=x.dtype)[:, None] + 1)


def body(x_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...]) * (pl.program_id(0) + 1).astype(x_ref.dtype)


def by_rows(x, n, **kwargs):
    spec = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        grid=(n,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=P,
        **kwargs,
    )(x)


def static_grid(x):
    return by_rows(x, x.shape[0])


def bounded(x, n):
    return by_rows(x, n, input_output_aliases={0: 0})


def run_time_bound(x):
    # An operation keeps the bound from being a constant.
    return bounded(x, jnp.int32(ROWS) + jnp.int32(0 * x.shape[0]))


def prefetched_scalars(x):
    def kernel(s_ref, x_ref, o_ref):
        o_ref[...] = jnp.sin(x_ref[...]) * s_ref[pl.program_id(0)].astype(x_ref.dtype)

    row = pl.BlockSpec((1, x.shape[1]), lambda i, s: (s[i] - 1, 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(x.shape[0],), in_specs=[row], out_specs=row
    )
    return pl.pallas_call(
        kernel,
        grid_spec=grid,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=P,
    )(jnp.arange(1, x.shape[0] + 1, dtype=jnp.int32), x)


def mosaic_gpu_kernel(x):
    def kernel(x, o, x_s, o_s, done):
        i = lax.axis_index("i")
        plgpu.copy_gmem_to_smem(x.at[i], x_s, done)
        plgpu.barrier_wait(done)
        o_s[...] = jnp.sin(x_s[...]) * (i + 1).astype(x_s.dtype)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_s, o.at[i])
        plgpu.wait_smem_to_gmem(0)

    row = plgpu.SMEM(x.shape[1:], x.dtype)
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_types=[row, row, plgpu.Barrier()],
        grid=(x.shape[0],),
        grid_names=("i",),
        interpret=P,
    )(x)


ENTRIES = [
    Entry("`pl.pallas_call`", static_grid),
    Entry("`pl.pallas_call`, run-time bound", run_time_bound, bounded),
    Entry("`pl.pallas_call`, prefetched scalars", prefetched_scalars),
    Entry("`plgpu.kernel`", mosaic_gpu_kernel),
]

# ── cells ───────────────────────────────────────────────────────────────────────────────

CELLS: dict[str, Callable[[Entry], None]] = {}


def cell(name):
    def register(function):
        CELLS[name] = function
        return function

    return register


class NotApplicable(Exception):
    """The entry point has nothing that the transformation works on."""


def numbers(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(-1, 1, shape), jnp.float32)


x, t = numbers(ROWS, COLUMNS), numbers(ROWS, COLUMNS, seed=1)
xs, ts = jnp.stack([x, t, x * t]), jnp.stack([t, x, x])


def close(actual, expected):
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), actual, expected
    )


def same(transform, *args):
    """A cell: `transform(entry)` is `transform(twin)`."""

    def run(f):
        close(transform(f)(*args), transform(twin)(*args))

    return run


def bound_of(f):
    if f.bounded is None:
        raise NotApplicable
    return f.bounded


def bounded_twin(x, n):
    return jnp.where(jnp.arange(x.shape[0])[:, None] < n, twin(x), x)


@cell("eager")
def _(f):
    close(f(x), twin(x))


@cell("`jax.jit`")
def _(f):
    close(jax.jit(f)(x), twin(x))


@cell("`jax.jit`, bound changes without a trace")
def _(f):
    g = jax.jit(bound_of(f))
    for n in (0, 4, 1):
        close(g(x, n), bounded_twin(x, n))
    assert g._cache_size() == 1


@cell("`jax.disable_jit`")
def _(f):
    with jax.disable_jit():
        close(f(x), twin(x))


@cell("sixteen kernels in one `jit`")
def _(f):
    def many(f):
        return lambda x: functools.reduce(lambda y, _: jnp.sin(f(y)), range(16), x)

    close(jax.jit(many(f))(x), many(twin)(x))


@cell("AOT `lower().compile()`")
def _(f):
    close(jax.jit(f).lower(x).compile()(t), twin(t))


@cell("donation")
def _(f):
    close(jax.jit(f, donate_argnums=0)(x + 0), twin(x))


@cell("64-bit mode")
def _(f):
    with jax.enable_x64(True):
        close(jax.jit(f)(x.astype(jnp.float64)), twin(x.astype(jnp.float64)))


@cell("`jvp` in 64-bit mode")
def _(f):
    with jax.enable_x64(True):
        args = x.astype(jnp.float64), t.astype(jnp.float64)
        close(jax.jit(functools.partial(jvp, f))(*args), jvp(twin, *args))


@cell("`jvp` with `jax.disable_jit`")
def _(f):
    with jax.disable_jit():
        close(jvp(f, x, t), jvp(twin, x, t))


@cell("AOT of the `jvp`")
def _(f):
    close(jax.jit(functools.partial(jvp, f)).lower(x, t).compile()(t, x), jvp(twin, t, x))


@cell("donation to the `jvp`")
def _(f):
    close(jax.jit(functools.partial(jvp, f), donate_argnums=(0, 1))(x + 0, t + 0), jvp(twin, x, t))


@cell("`jax.ensure_compile_time_eval`")
def _(f):
    with jax.ensure_compile_time_eval():
        close(f(x), twin(x))


CELLS["`vmap` over operands"] = same(lambda f: jax.jit(jax.vmap(f)), xs)
CELLS["`vmap` over another axis"] = same(
    lambda f: jax.jit(jax.vmap(f, 2, 1)), xs.transpose(1, 2, 0)
)
CELLS["`vmap` of `vmap`"] = same(lambda f: jax.jit(jax.vmap(jax.vmap(f))), jnp.stack([xs, ts]))


@cell("`vmap` over the bound")
def _(f):
    bounds = jnp.arange(ROWS + 1)
    close(
        jax.jit(jax.vmap(bound_of(f), (None, 0)))(x, bounds),
        jax.vmap(bounded_twin, (None, 0))(x, bounds),
    )


@cell("`vmap` over the bound and operands")
def _(f):
    bounds = jnp.arange(3)
    close(jax.jit(jax.vmap(bound_of(f)))(xs, bounds), jax.vmap(bounded_twin)(xs, bounds))


CELLS["`scan`"] = same(
    lambda f: jax.jit(lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=3)), x
)
CELLS["`while_loop`"] = same(
    lambda f: jax.jit(lambda x, n: lax.fori_loop(0, n, lambda _, c: f(c), x)), x, 3
)
CELLS["`cond`"] = same(lambda f: jax.jit(lambda x, p: lax.cond(p, f, lambda x: x, x)), x, True)
CELLS["`vmap` of `cond`"] = same(
    lambda f: jax.jit(jax.vmap(lambda x, p: lax.cond(p, f, lambda x: x, x))),
    xs,
    jnp.array([True, False, True]),
)
CELLS["`lax.map`"] = same(lambda f: jax.jit(lambda xs: lax.map(f, xs)), xs)
CELLS["`jax.checkpoint`"] = same(lambda f: jax.jit(jax.checkpoint(f)), x)


def jvp(f, x, t):
    return jax.jvp(f, (x,), (t,))


CELLS["`jvp`"] = same(lambda f: jax.jit(lambda x, t: jvp(f, x, t)), x, t)
CELLS["`linearize`"] = same(lambda f: lambda x, t: jax.linearize(f, x)[1](t), x, t)
CELLS["`jacfwd`"] = same(lambda f: jax.jit(jax.jacfwd(f)), x)
CELLS["`jvp` of `jvp`"] = same(
    lambda f: jax.jit(lambda x, t: jvp(lambda x: jvp(f, x, t), x, t)), x, t
)
CELLS["`jvp` of `vmap`"] = same(lambda f: jax.jit(lambda x, t: jvp(jax.vmap(f), x, t)), xs, ts)
CELLS["`vmap` of `jvp`"] = same(lambda f: jax.jit(jax.vmap(functools.partial(jvp, f))), xs, ts)
CELLS["`vmap` of `jvp`, only tangents batched"] = same(
    lambda f: jax.jit(jax.vmap(functools.partial(jvp, f), (None, 0))), x, ts
)
CELLS["`jvp` of `scan`"] = same(
    lambda f: jax.jit(
        lambda x, t: jvp(lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=3)[0], x, t)
    ),
    x,
    t,
)
CELLS["`jvp` of `lax.map`"] = same(
    lambda f: jax.jit(lambda x, t: jvp(lambda x: lax.map(f, x), x, t)), xs, ts
)
CELLS["`jvp` of `cond`"] = same(
    lambda f: jax.jit(lambda x, t, p: jvp(lambda x: lax.cond(p, f, lambda x: x, x), x, t)),
    x,
    t,
    True,
)
CELLS["`jvp` of `while_loop`"] = same(
    lambda f: jax.jit(
        lambda x, t, n: jvp(lambda x: lax.fori_loop(0, n, lambda _, c: f(c), x), x, t)
    ),
    x,
    t,
    3,
)
CELLS["`linearize` of `jax.checkpoint`"] = same(
    lambda f: lambda x, t: jax.linearize(jax.checkpoint(f), x)[1](t), x, t
)


@cell("`custom_jvp` around")
def _(f):
    def wrapped(f):
        g = jax.custom_jvp(f)
        g.defjvp(lambda p, t: (g(*p), t[0] * jnp.cos(p[0])))
        return jax.grad(lambda x: g(x).sum())

    close(jax.jit(wrapped(f))(x), wrapped(twin)(x))


@cell("`custom_vjp` around, `grad`")
def _(f):
    def wrapped(f):
        g = jax.custom_vjp(f)
        g.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * f(x),))
        return jax.grad(lambda x: g(x).sum())

    close(jax.jit(wrapped(f))(x), wrapped(twin)(x))


@cell("`grad` without a rule")
def _(f):
    jax.grad(lambda x: f(x).sum())(x)


@cell("`new_ref` around")
def _(f):
    @jax.jit
    def g(x):
        ref = jax.new_ref(x)
        ref[...] = f(ref[...])
        return jax.freeze(ref)

    close(g(x), twin(x))


def export_and_run(exported, *args):
    """Runs an exported function in a new process, which knows nothing of the kernel."""
    program = (
        "import sys, pickle, jax, pallas_rs\n"
        "data, args = pickle.load(sys.stdin.buffer)\n"
        "out = jax.export.deserialize(data).call(*args)\n"
        "pickle.dump(jax.device_get(out), sys.stdout.buffer)\n"
    )
    import pickle

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps((bytes(exported.serialize()), jax.device_get(args))),
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def export(f, *args, **kwargs):
    checks = pallas_rs.disabled_safety_checks()
    return jax.export.export(jax.jit(f), disabled_checks=checks, **kwargs)(*args)


@cell("`jax.export`, run in a new process")
def _(f):
    close(export_and_run(export(f, x), t), twin(t))


@cell("`jax.export` of the `jvp`")
def _(f):
    exported = export(functools.partial(jvp, f), x, t)
    close(export_and_run(exported, x, t), jvp(twin, x, t))


@cell("`jax.export` for cpu and cuda")
def _(f):
    exported = export(f, x, platforms=("cpu", "cuda"))
    close(jax.export.deserialize(exported.serialize()).call(x), twin(x))


@cell("`jax.export`, symbolic batch under `vmap`")
def _(f):
    shape = jax.export.symbolic_shape(f"b, {ROWS}, {COLUMNS}")
    exported = export(jax.vmap(f), jax.ShapeDtypeStruct(shape, jnp.float32))
    close(exported.call(xs), jax.vmap(twin)(xs))


@cell("`jax.export`, symbolic dimension of the kernel")
def _(f):
    shape = jax.export.symbolic_shape(f"r, {COLUMNS}")
    exported = export(f, jax.ShapeDtypeStruct(shape, jnp.float32))
    close(exported.call(x), twin(x))


@cell("`device_put` to another CPU device")
def _(f):
    device = jax.devices()[1]
    out = jax.jit(f)(jax.device_put(x, device))
    assert out.devices() == {device}
    close(out, twin(x))


def mesh():
    return jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


@cell("`shard_map`")
def _(f):
    sharded = functools.partial(
        jax.shard_map, mesh=mesh(), in_specs=Spec("d"), out_specs=Spec("d"), check_vma=False
    )
    arg = jnp.concatenate([x, t])
    close(jax.jit(sharded(f))(arg), jnp.concatenate([twin(x), twin(t)]))


@cell("`jvp` of `shard_map`")
def _(f):
    sharded = functools.partial(
        jax.shard_map, mesh=mesh(), in_specs=Spec("d"), out_specs=Spec("d"), check_vma=False
    )
    arg, tangent = jnp.concatenate([x, t]), jnp.concatenate([t, x])
    actual = jax.jit(functools.partial(jvp, sharded(f)))(arg, tangent)
    close(actual, jvp(sharded(twin), arg, tangent))


@cell("`jit` of a sharded operand")
def _(f):
    arg = jax.device_put(x, NamedSharding(mesh(), Spec("d")))
    close(jax.jit(f)(arg), twin(x))


@cell("`custom_partitioning` around")
def _(f):
    g = custom_partitioning(f)

    def partition(mesh, arg_shapes, result_shape):
        shardings = jax.tree.map(lambda s: s.sharding, (result_shape, arg_shapes))
        return mesh, lambda x: f(x), shardings[0], tuple(shardings[1])

    g.def_partition(
        infer_sharding_from_operands=lambda mesh, args, out: args[0].sharding,
        partition=partition,
        sharding_rule="r c -> r c",
    )
    arg = jax.device_put(x, NamedSharding(mesh(), Spec(None, "d")))
    close(jax.jit(g)(arg), twin(x))


# ── the table ───────────────────────────────────────────────────────────────────────────

WORKS, NOTHING = "works", "n/a"


def outcome(name, entry) -> str:
    """A cell as it is written: works, nothing to do, or the error in a few words."""
    try:
        CELLS[name](entry)
    except NotApplicable:
        return NOTHING
    except AssertionError as error:
        if _ours(error):
            raise
        return f"JAX: {_brief(error)}"
    except pallas_rs.KernelError as error:
        return f"refused: {_brief(error)}"
    except Exception as error:
        return f"JAX: {_brief(error)}"
    return WORKS


def _ours(error) -> bool:
    """Whether an assertion of this file, rather than of JAX, failed."""
    traceback = error.__traceback__
    files = []
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return not any("jax" in pathlib.PurePath(file).parts for file in files[-1:])


def _brief(error) -> str:
    text = str(error).strip().partition("\n")[0] or "an assertion without words"
    text = text.partition(" of kernel ")[0].replace("|", "/")
    return f"{type(error).__name__}, {text[:100]}"


def column() -> dict[str, dict[str, str]]:
    """The outcomes for the JAX at hand."""
    return {name: {entry.name: outcome(name, entry) for entry in ENTRIES} for name in CELLS}


def written(version) -> dict[str, dict[str, str]]:
    """What the table says of a version of JAX: per transformation, per entry point."""
    if not TABLE.exists():
        return {}
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    notes = dict(
        line.split(". ", 1)
        for line in TABLE.read_text().splitlines()
        if line[:1].isdigit() and ". " in line
    )
    header, _, *rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    if version not in header:
        return {}
    which = header.index(version)
    said: dict[str, dict[str, str]] = {}
    for row in rows:
        mark, _, number = row[which].partition(" ")
        value = notes[number.strip("()")] if number else mark
        said.setdefault(row[0], {})[row[1]] = value
    return said


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name.strip("`"))
@pytest.mark.parametrize("name", CELLS)
def test_cell(name, entry):
    said = written(jax.__version__)
    if not said:
        pytest.skip(f"the table has no column for jax {jax.__version__}")
    assert outcome(name, entry) == said[name][entry.name]


PREAMBLE = """\
# Transformations

What JAX's transformations do with a kernel that runs in pallas_rs. Generated by
`tests/transforms/test_table.py`, which runs every cell; `n/a`: the entry point has nothing
the transformation works on; a number leads to what is said instead of a result.

"""


def render(columns: dict[str, dict[str, dict[str, str]]]) -> str:
    """The table, with one column per version of JAX."""
    notes: dict[str, int] = {}

    def mark(value):
        if value in (WORKS, NOTHING):
            return value
        number = notes.setdefault(value, len(notes) + 1)
        return f"{'refused' if value.startswith('refused') else 'JAX'} ({number})"

    versions = list(columns)
    lines = [
        f"| transformation | entry point | {' | '.join(versions)} |",
        "|---" * (2 + len(versions)) + "|",
    ]
    for name in CELLS:
        for entry in ENTRIES:
            values = [mark(columns[version][name][entry.name]) for version in versions]
            lines.append(f"| {name} | {entry.name} | {' | '.join(values)} |")
    footnotes = [f"{number}. {text}" for text, number in notes.items()]
    return PREAMBLE + "\n".join(lines) + "\n\n" + "\n".join(footnotes) + "\n"


def main(pythons):
    if not pythons:
        json.dump([jax.__version__, column()], sys.stdout)
        return
    columns = {}
    for python in pythons:
        done = subprocess.run([python, __file__], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        version, cells = json.loads(done.stdout.splitlines()[-1])
        columns[version] = cells
    TABLE.write_text(render(columns))


if __name__ == "__main__":
    main(sys.argv[1:])
