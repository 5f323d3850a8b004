"""The only module that imports ``jax._src``; what differs between JAX versions ends here.

Served are JAX 0.10.2 to 0.12. Sections: versions, the call that is hooked, interpret mode,
the custom call, running StableHLO, the simulated device, differentiation.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import ad_util, custom_batching, source_info_util, tree_util
from jax._src import config as jax_config
from jax._src import core as jax_src_core
from jax._src import dtypes as jax_dtypes
from jax._src import effects as jax_effects
from jax._src import lib as jax_lib
from jax._src.interpreters import ad, batching, mlir, partial_eval
from jax._src.lib import xla_client
from jax._src.pallas import core as pallas_core
from jax._src.pallas import mpmd as mpmd_lib
from jax._src.pallas import pallas_call as pallas_call_lib
from jax._src.pallas import primitives as pallas_primitives
from jax._src.state import discharge as state_discharge
from jax._src.state import primitives as state_primitives
from jax._src.state import types as state_types
from jax.extend import backend as jax_backend
from jax.extend import core as jax_core

# ── versions ────────────────────────────────────────────────────────────────────────────

OLDEST_JAX = (0, 10, 2)
JAX_VERSION: tuple[int, ...] = jax.__version_info__


def check_jax() -> None:
    """Refuses a JAX that cannot work, in one sentence.

    Raises:
        ImportError: JAX is older than the oldest one served, or so new that the places
            this package hooks into have moved.
    """
    if JAX_VERSION < OLDEST_JAX:
        oldest = ".".join(map(str, OLDEST_JAX))
        raise ImportError(
            f"pallas_rs needs jax {oldest} or newer, and this is jax {jax.__version__}"
        )
    moved = _missing_places()
    if moved:
        raise ImportError(
            f"pallas_rs does not know jax {jax.__version__}: {', '.join(moved)} moved;"
            " install a newer pallas_rs or an older jax"
        )


def _missing_places() -> list[str]:
    """The places this package hooks into that are not where they were."""
    moved = [
        f"{module.__name__}.{name}"
        for module, names in (
            (pallas_call_lib, ("_pallas_call_lowering", "pallas_call_p")),
            (mlir, ("register_lowering", "lower_fun", "_lowerings")),
            (mpmd_lib, ("mpmd_map_p", "_mpmd_map_fallback_lowering")),
            (jax_config, ("pallas_tpu_interpret_mode_context_manager",)),
        )
        for name in names
        if not hasattr(module, name)
    ]
    lowering = getattr(pallas_call_lib, "_pallas_call_lowering", None)
    if lowering is not None and "interpret" not in inspect.signature(lowering).parameters:
        moved.append("the `interpret` argument of pallas_call's lowering")
    return moved


# ── the call that is hooked ─────────────────────────────────────────────────────────────

Lowering = Callable[..., Any]


def pallas_call_lowering() -> Lowering:
    """The rule that ``pallas_call``, ``plgpu.kernel`` and ``core_map`` all end in."""
    rule: Lowering = pallas_call_lib._pallas_call_lowering
    return rule


def replace_pallas_call_lowering(rule: Lowering) -> None:
    """Puts ``rule`` in its place.

    ``mpmd_map`` and ``core_map`` look the function up in its module; equations of
    ``pallas_call`` itself find it in the table of rules.
    """
    pallas_call_lib._pallas_call_lowering = rule
    mlir.register_lowering(pallas_call_lib.pallas_call_p, rule)


def mpmd_map_lowering() -> Lowering:
    """The rule of ``mpmd_map``, which ``plgpu.kernel`` is made of."""
    rule: Lowering = mlir._lowerings[mpmd_lib.mpmd_map_p].rule
    return rule


def replace_mpmd_map_lowering(rule: Lowering) -> None:
    """Puts ``rule`` in its place."""
    mlir.register_lowering(mpmd_lib.mpmd_map_p, rule)


def mpmd_map_as_pallas_call(ctx: Any, *nodes: Any, **params: Any) -> Any:
    """Lowers an ``mpmd_map`` as the ``pallas_call`` with a mesh that it stands for."""
    return mpmd_lib._mpmd_map_fallback_lowering(ctx, *nodes, **params)


def lower_as_jax(function: Callable[..., Any], ctx: Any, *nodes: Any) -> Any:
    """Lowers a call as what ``function``, of traced arrays, does."""
    return mlir.lower_fun(function, multiple_results=True)(ctx, *nodes)


# ── interpret mode ──────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def interpret_mode(params: Any) -> Iterator[None]:
    """Every kernel traced inside is given ``interpret=params``."""
    state = jax_config.pallas_tpu_interpret_mode_context_manager
    previous = state.swap_local(params)
    try:
        yield
    finally:
        state.set_local(previous)


@contextlib.contextmanager
def kernels_called_with(call: Callable[..., Any]) -> Iterator[None]:
    """Kernels evaluated eagerly go through ``call(evaluate, *operands, **params)``."""
    evaluate = pallas_call_p.impl
    pallas_call_p.def_impl(functools.partial(call, evaluate))
    try:
        yield
    finally:
        pallas_call_p.def_impl(evaluate)


# ── the custom call ─────────────────────────────────────────────────────────────────────


def define_call_primitive(
    name: str, lower: Callable[..., Any], lower_elsewhere: Callable[..., Any]
) -> Any:
    """A primitive with parameter ``out_avals`` that has no JAX effect.

    ``lower`` is its rule on the CPU, ``lower_elsewhere`` that of all other platforms.
    """
    primitive = jax_core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, out_avals, **__: list(out_avals))
    primitive.def_impl(
        lambda *args, **params: jax.jit(functools.partial(primitive.bind, **params))(*args)
    )
    mlir.register_lowering(primitive, lower, platform="cpu")
    mlir.register_lowering(primitive, lower_elsewhere)
    return primitive


def compiles_for_one_present_platform(ctx: Any) -> bool:
    """Whether a module is lowered to run here, and not exported for several or other platforms."""
    if len(ctx.module_context.platforms) != 1:
        return False
    try:
        ctx.module_context.get_backend()
    except ValueError:
        return False
    return True


def devices_of(ctx: Any) -> int:
    """How many devices of this process run the computation that is being lowered."""
    if jax.process_count() > 1:
        return 1  # not all of them are here to be waited for
    context = ctx.module_context.axis_context
    mesh = getattr(context, "mesh", None)
    return int(context.num_devices if mesh is None else mesh.size)


# ── running StableHLO ───────────────────────────────────────────────────────────────────


def compile_stablehlo(module: bytes) -> Callable[[Sequence[np.ndarray]], list[Any]]:
    """Compiles a module for the CPU; the result takes and returns host arrays."""
    client = jax_backend.get_backend("cpu")
    device = client.local_devices()[0]
    options = jax_backend.get_compile_options(num_replicas=1, num_partitions=1)
    executable = client.compile_and_load(module, xla_client.DeviceList((device,)), options)

    def run(arrays: Sequence[np.ndarray]) -> list[Any]:
        operands = [jax.device_put(array, device) for array in arrays]
        results = executable.execute_sharded(operands)
        shards = results.disassemble_into_single_device_arrays()
        return [np.asarray(shard[0]) for shard in shards]

    return run


# ── the simulated device ────────────────────────────────────────────────────────────────


def device_class() -> Any:
    """The class of ``jax.devices()``'s elements."""
    return type(jax_backend.get_backend("cpu").local_devices()[0])


@contextlib.contextmanager
def cuda_versions(stand_in: Any) -> Iterator[None]:
    """Lets ``stand_in`` answer for the CUDA library that a CPU's jaxlib lacks."""
    if jax_lib.cuda_versions is not None:
        yield
        return
    # Modules that imported the name keep their own reference to it.
    jax_lib.cuda_versions = stand_in
    _replace_everywhere("cuda_versions", None, stand_in)
    try:
        yield
    finally:
        jax_lib.cuda_versions = None
        _replace_everywhere("cuda_versions", stand_in, None)


def _replace_everywhere(name: str, old: Any, new: Any) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if name in names and names[name] is old:
            names[name] = new


# ── jaxprs, as the lowering reads them ──────────────────────────────────────────────────


def open_jaxpr(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """The equations and the constants of a jaxpr, closed or open.

    A closed jaxpr is a class of its own before 0.11 and a jaxpr with `consts` after it.
    """
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jax_src_core.Literal)


def is_ref_aval(aval: Any) -> bool:
    return isinstance(aval, state_types.AbstractRef)


def key_data_aval(aval: Any) -> Any:
    """The uint32 array that a PRNG key array is made of; any other type as it is."""
    if isinstance(aval, jax_src_core.ShapedArray) and jax_dtypes.issubdtype(
        aval.dtype, jax_dtypes.prng_key
    ):
        return jax_src_core.physical_aval(aval)
    return aval


def is_semaphore_aval(aval: Any) -> bool:
    """Whether an array's elements are semaphores, which are int32 to XLA."""
    return bool(jax_dtypes.issubdtype(aval.dtype, pallas_core.semaphore_dtype))


def is_key_aval(aval: Any) -> bool:
    return isinstance(aval, jax_src_core.ShapedArray) and jax_dtypes.issubdtype(
        aval.dtype, jax_dtypes.prng_key
    )


def key_impl(aval: Any) -> Any:
    return aval.dtype._impl


def is_key_array(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax_dtypes.issubdtype(value.dtype, jax_dtypes.prng_key)


def key_data(value: Any) -> Any:
    return jax.random.key_data(value)


def transformed_shape(aval: Any, transforms: Sequence[Any]) -> tuple[int, ...]:
    """The shape of a ref of type `aval` seen through `transforms`."""
    for transform in transforms:
        aval = transform.transform_type(aval)
    return tuple(aval.shape)


def is_plain_ref(aval: Any) -> bool:
    """Whether a ref holds numbers, in memory that is not special in any way."""
    return (
        type(aval) is state_types.AbstractRef
        and isinstance(aval.inner_aval, jax_src_core.ShapedArray)
        and not jax_dtypes.issubdtype(aval.inner_aval.dtype, jax_dtypes.extended)
    )


def array_aval(ref_aval: Any) -> Any:
    """The type of the array that a ref of this type holds."""
    return jax_src_core.ShapedArray(ref_aval.inner_aval.shape, ref_aval.inner_aval.dtype)


def aval_of(x: Any) -> Any:
    return jax.typeof(x)


def split_transformed(ref_aval: Any) -> tuple[Any, tuple[Any, ...]]:
    """The ref type and the transforms of a ref aval that may carry some."""
    if isinstance(ref_aval, state_types.TransformedRef):
        return ref_aval.ref, tuple(ref_aval.transforms)
    return ref_aval, ()


def scan_groups(
    params: dict[str, Any], operands: Sequence[Any]
) -> tuple[list[Any], list[Any], list[Any]]:
    """A scan's operands as constants, carry and inputs."""
    if "ft_in" in params:
        consts, carry, xs = (list(g) for g in params["ft_in"].update(list(operands)).unpack())
        return consts, carry, xs
    consts_end = params["num_consts"]
    carry_end = consts_end + params["num_carry"]
    operands = list(operands)
    return operands[:consts_end], operands[consts_end:carry_end], operands[carry_end:]


# ── where an equation comes from ────────────────────────────────────────────────────────


def is_user_file(filename: str) -> bool:
    return bool(source_info_util.is_user_filename(filename))


def frames(source_info: Any) -> Iterator[tuple[str, Callable[[], tuple[int, str]]]]:
    """File of each of an equation's frames, innermost first, and how to get line and function.

    JAX's own frames are among them. The line costs more than the file, so it is computed on demand.
    """
    traceback = source_info.traceback
    if traceback is None:
        return
    codes, offsets = traceback.raw_frames()
    for code, offset in zip(codes, offsets, strict=True):
        yield code.co_filename, functools.partial(_line_and_function, code, offset)


def _line_and_function(code: Any, offset: int) -> tuple[int, str]:
    frame = source_info_util.raw_frame_to_frame(code, offset)
    return frame.start_line, code.co_name


# ── printing and checks ─────────────────────────────────────────────────────────────────


def merge_callback_args(
    in_tree: Any, dynamic: Sequence[Any], static: Any
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Positional and keyword arguments of a print, from its operands and static parts."""
    dynamic_left = iter(dynamic)
    known = dict(static)
    count = len(dynamic) + len(known)
    leaves = [known[i] if i in known else next(dynamic_left) for i in range(count)]
    args, kwargs = in_tree.unflatten(leaves)
    return args, kwargs


def debug_checks_enabled() -> bool:
    """Whether ``pl.enable_debug_checks`` is on."""
    return bool(pallas_core.debug_checks_enabled())


def check_errors(
    err_tree: Any, leaves: Sequence[Any]
) -> Iterator[tuple[Any, Any, list[tuple[int, str, Sequence[Any], dict[str, Any]]]]]:
    """The errors that a ``check`` may raise: per kind whether, its code, and what it may be.

    A possible error is its code, its format string, and the arguments of the format string.
    """
    error = err_tree.unflatten(list(leaves))
    for effect, failed in error._pred.items():
        possible = []
        for code, tree in error._metadata.items():
            exception = tree.unflatten(error._payload[effect])
            if isinstance(exception, effect.error_type):
                text = getattr(exception, "fmt_string", None) or str(exception)
                arguments = exception.args if hasattr(exception, "fmt_string") else ()
                keywords = getattr(exception, "kwargs", {})
                possible.append((int(code), text, arguments, keywords))
        yield failed, error._code[effect], possible


# ── one primitive as StableHLO ──────────────────────────────────────────────────────────


def primitive_as_stablehlo(primitive: Any, params: dict[str, Any], avals: Sequence[Any]) -> bytes:
    """A module for the CPU that applies a primitive to arrays; a key is its uint32 array."""

    def apply(*args: Any) -> list[Any]:
        wrapped = [
            jax.random.wrap_key_data(x, impl=key_impl(a)) if is_key_aval(a) else x
            for a, x in zip(avals, args, strict=True)
        ]
        results = primitive.bind(*wrapped, **primitive.get_bind_params(params))
        results = results if primitive.multiple_results else [results]
        return [jax.random.key_data(r) if is_key_aval(jax.typeof(r)) else r for r in results]

    operands = [key_data_aval(a) for a in avals]
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in operands]
    traced = jax.jit(apply, keep_unused=True).trace(*structs)
    module = traced.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo")
    if "python_cpu_callback" in str(module):
        # The module names the address of an object that lives only as long as the lowering.
        raise NotImplementedError("it calls back into Python")
    return bytes(mlir.module_to_bytecode(module))


# ── Mosaic GPU's refs ───────────────────────────────────────────────────────────────────


def ref_union_members(aval: Any) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """The members of a union of refs: how one is extracted, its type, its layout."""
    # Only a program that imported Mosaic GPU has unions.
    mosaic_gpu_core = sys.modules[type(aval).__module__]
    members = jax.tree.leaves(
        mosaic_gpu_core.flatten_ref_union(aval),
        is_leaf=lambda x: isinstance(x, state_types.TransformedRef),
    )
    for member in members:
        extract, *layout = member.transforms
        memory = jax_src_core.ShapedArray(extract.shape, extract.dtype)
        yield extract, state_types.AbstractRef(memory, aval.memory_space), tuple(layout)


def discharge_refs(jaxpr: Any, which: Sequence[bool]) -> Any:
    """A jaxpr whose refs `which` became values, with their last contents as further results."""
    if not any(which):
        return jaxpr
    if hasattr(jax_src_core, "ClosedJaxpr") and not hasattr(jaxpr, "consts"):
        jaxpr = jax_src_core.ClosedJaxpr(jaxpr, ())
    with jax_config._check_vma(False):
        return state_discharge.discharge_state(jaxpr, should_discharge=list(which))


# ── differentiation ─────────────────────────────────────────────────────────────────────
#
# From 0.11 on a jaxpr and a closed jaxpr are one class: its constants are the leading
# inputs that have a value attached. `open` means here: without regard to values.

_ONE_JAXPR_CLASS = getattr(jax_src_core, "ClosedJaxpr", jax_src_core.Jaxpr) is jax_src_core.Jaxpr

Zero = ad_util.Zero
instantiate_zeros = ad.instantiate_zeros
primitive_jvps: dict[Any, Callable[..., Any]] = ad.primitive_jvps
primitive_transposes: dict[Any, Callable[..., Any]] = ad.primitive_transposes
# Rules of batching, which are told about the axis.
axis_batchers: dict[Any, Callable[..., Any]] = batching.fancy_primitive_batchers
is_constant_dim = jax_src_core.is_constant_dim
eval_jaxpr = jax_src_core.eval_jaxpr
typeof = jax_src_core.typeof
AbstractRef = state_types.AbstractRef
WriteEffect = state_types.WriteEffect
AccumEffect = state_types.AccumEffect
JaxprInputEffect = jax_effects.JaxprInputEffect
ShapedArray = jax_src_core.ShapedArray

pallas_call_p = pallas_call_lib.pallas_call_p
mpmd_map_p = mpmd_lib.mpmd_map_p
custom_vmap_p = custom_batching.custom_vmap_p
call_custom_vmap_rule = custom_batching.call_rule
mpmd_map_tracing_context = mpmd_lib.mpmd_map_tracing_context
# Before 0.11 a mesh inside a kernel is `core_map`, and `mpmd_map` from then on.
core_map_p = getattr(pallas_core, "core_map_p", None) if JAX_VERSION < (0, 11) else None
run_scoped_p = pallas_primitives.run_scoped_p
semaphore_signal_p = pallas_primitives.semaphore_signal_p
semaphore_wait_p = pallas_primitives.semaphore_wait_p
semaphore_read_p = pallas_primitives.semaphore_read_p
run_state_p = state_discharge.run_state_p
run_state = state_discharge.run_state
masked_load_p = pallas_primitives.load_p
masked_swap_p = pallas_primitives.swap_p
get_p = state_primitives.get_p
swap_p = state_primitives.swap_p
addupdate_p = state_primitives.addupdate_p
SemaphoreRules = pallas_core.AbstractSemaphoreTyRules


def missing_transpose(primitive: Any) -> Callable[..., Any]:
    """What JAX does about reverse mode of a primitive without a rule: it raises."""
    rule: Callable[..., Any] = ad.get_primitive_transpose(jax_src_core.Primitive(primitive.name))
    return rule


def jvp_of(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
) -> tuple[list[Any], list[Any]]:
    """``jax.jvp`` of a flat function, with symbolic zeros (`Zero`) in and out."""
    with jax_src_core.take_current_trace() as parent:
        trace = ad.JVPTrace(parent, jax_src_core.TraceTag())
        tracers = [
            ad.maybe_jvp_tracer(trace, primal, tangent)
            for primal, tangent in zip(primals, tangents, strict=True)
        ]
        with jax_src_core.set_current_trace(trace):
            outs = function(*tracers)
        pairs = [trace.to_primal_tangent_pair(out) for out in outs]
    return [primal for primal, _ in pairs], [tangent for _, tangent in pairs]


def trace_flat(
    function: Callable[..., Sequence[Any]], avals: Sequence[Any], debug_info: Any
) -> tuple[Any, list[Any]]:
    """Traces a flat function of ``avals``: the open jaxpr, and its constants."""
    trace = getattr(partial_eval, "trace_to_jaxpr_nocache", partial_eval.trace_to_jaxpr)
    closed, _ = trace(function, _flat_tree(avals), debug_info.with_unknown_names())
    return bare_jaxpr(closed), list(closed.consts)


def _flat_tree(avals: Sequence[Any]) -> Any:
    if hasattr(tree_util, "FlatTree"):
        return tree_util.FlatTree.flatten((tuple(avals), {}))
    from jax._src import flattree

    return flattree.flatten_args(*avals)


def bare_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr itself, of an open or a closed one."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def close_jaxpr(jaxpr: Any) -> Any:
    """An open jaxpr without constants as parameters of primitives carry it."""
    return jaxpr if _ONE_JAXPR_CLASS else jax_src_core.ClosedJaxpr(jaxpr, ())


def with_inputs(
    jaxpr: Any,
    invars: Sequence[Any],
    *,
    arg_names: Sequence[str] | None = None,
    constvars: Sequence[Any] = (),
    consts: Sequence[Any] = (),
) -> Any:
    """The open jaxpr with its inputs in another order.

    ``consts`` are the values of ``constvars``: 0.11 and later tell the two kinds of
    inputs apart by them.
    """
    debug_info = jaxpr.debug_info.with_unknown_names()
    if arg_names is not None:
        debug_info = debug_info._replace(arg_names=tuple(arg_names))
    return jax_src_core.Jaxpr(
        list(constvars),
        list(invars),
        jaxpr.outvars,
        jaxpr.eqns,
        jaxpr.effects,
        debug_info,
        jaxpr.is_high,
        **({"consts": list(consts)} if _ONE_JAXPR_CLASS else {}),
    )


def as_function(closed: Any) -> Callable[..., Sequence[Any]]:
    """A closed jaxpr as a flat function."""
    function: Callable[..., Sequence[Any]] = jax_src_core.jaxpr_as_fun(closed)
    return function


def flat_tree_of_arguments(count: int) -> Any:
    """The tree of ``count`` positional arguments, as `custom_vmap` wants it."""
    registry = getattr(tree_util, "tracing_registry", None)
    args = (0,) * count
    return jax.tree.structure(args) if registry is None else registry.flatten(args)[1]


def arg_names(jaxpr: Any) -> list[str]:
    """Names of the inputs as the user wrote them; empty where unknown."""
    count = len(jaxpr.invars)
    names = jaxpr.debug_info.arg_names
    if names is None or len(names) != count:
        return [""] * count
    return [name or "" for name in names]


def sub_jaxprs(params: Mapping[str, Any]) -> Iterator[Any]:
    """Every jaxpr, without regard to constants, in an equation's parameters."""
    found: Iterator[Any] = jax_src_core.jaxprs_in_params(params)
    return found


def has_primitive(jaxpr: Any, *names: str) -> bool:
    """Whether a jaxpr, or one inside it, has an equation of one of these primitives."""
    return any(
        eqn.primitive.name in names
        or any(has_primitive(inner, *names) for inner in sub_jaxprs(eqn.params))
        for eqn in jaxpr.eqns
    )


def map_sub_jaxprs(params: Mapping[str, Any], function: Callable[[Any], Any]) -> dict[str, Any]:
    """An equation's parameters with ``function`` applied to each jaxpr in them."""

    def visit(value: Any) -> Any:
        if isinstance(value, jax_src_core.Jaxpr):
            return function(value)
        if not _ONE_JAXPR_CLASS and isinstance(value, jax_src_core.ClosedJaxpr):
            inner = function(value.jaxpr)
            return value if inner is value.jaxpr else value.replace(jaxpr=inner)
        if type(value) in (tuple, list):
            return type(value)(visit(item) for item in value)
        return value

    return {name: visit(value) for name, value in params.items()}


def whole_array_mapping(grid_mapping: Any, aval: Any, origin: str) -> Any:
    """A block mapping that shows every grid point the whole of an array."""
    spec = pallas_core.BlockSpec(memory_space=pallas_core.MemorySpace.ANY)
    return spec.to_block_mapping(
        origin,
        aval,
        index_map_avals=grid_mapping.index_map_avals,
        index_map_tree=grid_mapping.index_map_tree,
        grid=grid_mapping.grid,
        vmapped_dims=grid_mapping.vmapped_dims,
        debug=grid_mapping.debug,
    )


def extended_axis_env(
    sizes: Mapping[Any, int],
) -> contextlib.AbstractContextManager[Any]:
    """Names of axes that code traced inside may ask about."""
    env: contextlib.AbstractContextManager[Any] = jax_src_core.extend_axis_env_nd(sizes.items())
    return env


def define_effectful_primitive(name: str, abstract_eval: Callable[..., Any]) -> Any:
    """A primitive of kernels: ``abstract_eval`` returns types of results, and effects."""
    primitive = jax_core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_effectful_abstract_eval(abstract_eval)
    return primitive


def effects_of(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> Iterator[Any]:
    """Effects of a primitive on operands of these types."""
    _, effects = primitive.abstract_eval(*avals, **params)
    yield from effects


def shift_effect(effect: Any, count: int) -> Any:
    """The effect, of a primitive that has ``count`` more operands before the others."""
    if not isinstance(effect, JaxprInputEffect):
        return effect
    index = getattr(effect, "input", None)
    if index is None:
        index = effect.input_index
    return effect.replace(index + count)


def mosaic_gpu_modules() -> tuple[Any, Any]:
    """JAX's types and primitives of Mosaic GPU; slow to import, so on demand."""
    from jax._src.pallas.mosaic_gpu import core as gpu_core
    from jax._src.pallas.mosaic_gpu import primitives as gpu_primitives

    return gpu_core, gpu_primitives


def gpu_primitives() -> dict[str, list[Any]]:
    """The primitives that JAX itself lowers for a GPU, per lowering; each once, by name."""
    from jax._src.pallas.mosaic_gpu import lowering as mosaic_gpu
    from jax._src.pallas.triton import lowering as triton

    # Their primitives register rules when they are imported.
    from jax._src.pallas.triton import primitives  # noqa: F401
    from jax.experimental.pallas import mosaic_gpu as _mosaic_gpu  # noqa: F401

    tables = mosaic_gpu.mosaic_lowering_rules.values()
    found = {
        "Mosaic GPU": {p.name: p for table in tables for p in table},
        "Triton": {p.name: p for p in triton.triton_lowering_rules},
    }
    return {name: [table[p] for p in sorted(table)] for name, table in found.items()}


def triton_primitives() -> Any:
    """JAX's primitives of Pallas' Triton flavour."""
    from jax._src.pallas.triton import primitives

    return primitives


def gpu_interpreter() -> Any:
    """JAX's own interpreter of Mosaic GPU kernels, at its defaults."""
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

    return InterpretGPUParams()


# ── MLIR of Mosaic GPU ──────────────────────────────────────────────────────────────────


@functools.cache
def mosaic_gpu_mlir() -> Any:
    """What emits and reads the MLIR of a Mosaic GPU kernel; slow to import, so on demand."""
    from types import SimpleNamespace

    from jax._src.lib import mosaic_gpu_dialect
    from jax._src.lib.mlir import ir
    from jax._src.lib.mlir.dialects import func
    from jax.experimental.mosaic import gpu as mgpu
    from jax.experimental.mosaic.gpu import utils

    def new_context() -> Any:
        context = mlir.make_ir_context()
        mosaic_gpu_dialect.register_dialect(context)
        context.allow_unregistered_dialects = True  # for operations of the machine's own
        return context

    return SimpleNamespace(ir=ir, func=func, mgpu=mgpu, utils=utils, new_context=new_context)
