"""Exports: what they need to be loaded, for which shapes they can be made, and platforms."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pallas_rs
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from pallas_rs import _core, _ffi
from pallas_rs import _jax_internals as jax_internals

P = pallas_rs.Params()
x = jnp.linspace(-1, 1, 32).reshape(4, 8)


def sine(x_ref, o_ref):
    o_ref[...] = jnp.sin(x_ref[...])


def whole(x):
    return pl.pallas_call(sine, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=P)(x)


def by_rows(x):
    spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        sine, grid=(4,), in_specs=[spec], out_specs=spec, out_shape=out, interpret=P
    )(x)


def kernel(x):
    def body(x, o):
        i = jax.lax.axis_index("i")
        o[i] = jnp.sin(x[i])

    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return plgpu.kernel(body, out_type=out, grid=(4,), grid_names=("i",), interpret=P)(x)


def export(f, *args, **kwargs):
    checks = pallas_rs.disabled_safety_checks()
    return jax.export.export(jax.jit(f), disabled_checks=checks, **kwargs)(*args)


@pytest.mark.parametrize("f", [by_rows, kernel])
def test_an_export_for_several_platforms_runs_here(f):
    exported = export(f, x, platforms=("cpu", "cuda"))
    assert exported.platforms == ("cpu", "cuda")
    loaded = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(loaded.call(x), jnp.sin(x), rtol=1e-6)


def test_an_export_for_a_gpu_alone():
    exported = export(kernel, x, platforms=("cuda",))
    assert _ffi.TARGET_NAME in exported.mlir_module()


@pytest.mark.parametrize("f", [by_rows, kernel])
@pytest.mark.parametrize("differentiated", [False, True])
def test_a_symbolic_size_of_a_kernels_array_is_refused_with_the_way_out(f, differentiated):
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("rows, 8"), jnp.float32)
    g = (lambda x: jax.jvp(f, (x,), (x,))) if differentiated else f
    with pytest.raises(pallas_rs.UnsupportedError, match=r"\(rows, 8\)") as caught:
        export(g, shape)
    assert "jax.vmap" in str(caught.value)


@pytest.mark.parametrize("f", [by_rows, kernel])
@pytest.mark.parametrize("differentiated", [False, True])
def test_a_symbolic_size_that_vmap_maps_over(f, differentiated):
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 4, 8"), jnp.float32)

    def both(f):
        return lambda x: jax.jvp(f, (x,), (x,)) if differentiated else f(x)

    exported = jax.export.deserialize(export(both(jax.vmap(f)), shape).serialize())
    for batch in (1, 3):
        xs = jnp.stack([x] * batch)
        for actual, expected in zip(
            jax.tree.leaves(exported.call(xs)), jax.tree.leaves(both(jnp.sin)(xs)), strict=True
        ):
            np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_the_name_of_the_custom_call_does_not_depend_on_the_build():
    assert _ffi.TARGET_NAME == "pallas_rs.run.v1"
    assert _ffi.TARGET_NAME in export(whole, x).mlir_module()


def test_a_program_of_another_version_is_refused_with_both_versions():
    program, _ = pallas_program(whole, x)
    assert _core.FORMAT.encode() in program
    foreign = program.replace(_core.FORMAT.encode(), b"0123456789abcdef")

    def f(x):
        return _ffi.call(foreign, [x], [jax.typeof(x)], {}, "sine")

    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(f)(x)
    text = str(caught.value)
    assert pallas_rs.__version__ in text
    assert "0123456789abcdef" in text
    assert "export it again" in text


def pallas_program(f, *args):
    """The bytes of the program in a traced function, and its equation."""
    (eqn,) = (eqn for eqn in jax.make_jaxpr(f)(*args).eqns if eqn.primitive.name == "pallas_call")
    from pallas_rs import _interpret

    params = {
        k: eqn.params[k]
        for k in (
            "interpret",
            "jaxpr",
            "grid_mapping",
            "input_output_aliases",
            "compiler_params",
            "out_avals",
            "name",
        )
    }
    return _interpret.lower([v.aval for v in eqn.invars], mesh=None, **params).wire, eqn


def test_a_process_without_pallas_rs_names_the_missing_call(tmp_path):
    file = tmp_path / "kernel"
    file.write_bytes(export(whole, x).serialize())
    code = (
        "import sys, jax, jax.numpy as jnp\n"
        "f = jax.export.deserialize(bytearray(open(sys.argv[1], 'rb').read()))\n"
        "f.call(jnp.ones((4, 8)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode != 0
    assert "pallas_rs.run.v1" in done.stderr


@pytest.fixture
def elsewhere(monkeypatch):
    """Calls are lowered as where JAX's default backend is a GPU: by way of the host."""
    primitive = jax_internals.define_call_primitive(
        "pallas_rs_call_elsewhere", _ffi._lower_elsewhere, _ffi._lower_elsewhere
    )

    def call(wire, operands, out_avals, aliases, name, *, has_side_effect=False):
        return primitive.bind(
            *operands,
            wire=wire,
            out_avals=tuple(out_avals),
            aliases=tuple(sorted(aliases.items())),
            name=name,
            has_side_effect=has_side_effect,
        )

    monkeypatch.setattr(_ffi, "call", call)
    monkeypatch.setattr(_ffi, "_told", set())
    jax.clear_caches()
    yield
    jax.clear_caches()


def test_a_callback_where_the_platform_is_another(elsewhere, caplog):
    def aliased(x, n):
        spec = pl.BlockSpec((1, 8), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(
            sine,
            grid=(n,),
            in_specs=[spec],
            out_specs=spec,
            out_shape=out,
            input_output_aliases={0: 0},
            interpret=P,
        )(x)

    f = jax.jit(aliased)
    assert "callback" in f.lower(x, 2).as_text()
    for n in (0, 2, 4):
        expected = jnp.where(jnp.arange(4)[:, None] < n, jnp.sin(x), x)
        np.testing.assert_allclose(f(x, n), expected, rtol=1e-6)
    _, tangent = jax.jit(lambda x: jax.jvp(kernel, (x,), (x,)))(x)
    np.testing.assert_allclose(tangent, x * jnp.cos(x), rtol=1e-6)
    assert len([r for r in caplog.records if "runs kernels on the host" in r.message]) == 1


def test_a_print_and_a_failure_by_way_of_a_callback(elsewhere, capfd):
    def prints(x_ref, o_ref):
        pl.debug_print("first {}", x_ref[0, 0])
        o_ref[...] = x_ref[...]

    def fails(n_ref, x_ref, o_ref):
        o_ref[0] = x_ref[n_ref[0], 0]

    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    jax.block_until_ready(jax.jit(pl.pallas_call(prints, out_shape=out, interpret=P))(x))
    assert capfd.readouterr().out.count("first -1.0") == 1
    f = pl.pallas_call(fails, out_shape=jax.ShapeDtypeStruct((1,), x.dtype), interpret=P)
    with pytest.raises(Exception, match="OutOfBoundsError"):
        jax.block_until_ready(jax.jit(f)(jnp.array([100]), x))
