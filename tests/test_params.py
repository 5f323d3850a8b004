"""Parameters, and the options the machine is given for them."""

import dataclasses
import enum
import pathlib

import pallas_rs
import pytest
from jax._src.pallas.mosaic_gpu.interpret import params as jax_params


class Logging(enum.Flag):
    BARRIER = enum.auto()
    SEMAPHORE = enum.auto()
    SHARED_MEMORY = enum.auto()


def test_every_field_of_jax_is_accepted():
    defaults = jax_params.InterpretGPUParams()
    fields = {f.name: getattr(defaults, f.name) for f in dataclasses.fields(defaults)}
    ours = pallas_rs.Params(**fields)
    assert all(getattr(ours, name) == value for name, value in fields.items())


def test_equal_params_are_one_jit_key():
    assert hash(pallas_rs.Params(seed=3)) == hash(pallas_rs.Params(seed=3))
    assert pallas_rs.Params(seed=3) == pallas_rs.Params(seed=3)
    assert pallas_rs.Params(seed=3) != pallas_rs.Params(seed=4)


def test_params_are_true_and_frozen():
    params = pallas_rs.Params()
    assert params
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.seed = 1
    with pytest.raises(TypeError):
        pallas_rs.Params(True)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("on_race", "explode", "'raise', 'warn'"),
        ("out_of_bounds_reads", "uninitialised", "'raise', 'uninitialized'"),
        ("uninitialized_memory", None, "'nan', 'zero'"),
        ("inline_mgpu", "maybe", "'error', 'ignore'"),
        ("target", "H100", "None, 'a100', 'h100', 'h200', 'b200', 'b300'"),
        ("async_completion", "lazy", "'late', 'eager', 'random'"),
        ("uninitialized_reads", "error", "'ignore', 'warn', 'raise'"),
        ("limits", True, "'check', 'ignore'"),
        ("detect_races", 1, "False, True"),
        ("seed", -1, ">= 0"),
        ("seed", 1.5, ">= 0"),
        ("seed", True, ">= 0"),
        ("seeds", 0, ">= 1"),
        ("num_workers", 0, ">= 1, or None"),
        ("num_cores_or_threads", 0, ">= 1"),
        ("num_tma_threads_per_device", -1, ">= 0"),
        ("vector_clock_size", 0, ">= 1, or None"),
        ("logging_mode", 3, "LoggingMode"),
        ("trace", 3, "path of a file"),
        ("schedule", "replay:xx", "a report gave"),
        ("schedule", "fifo", "'round_robin', 'random', 'pct'"),
        ("schedule", "pct:0", "'pct:<depth>'"),
        ("schedule", "replay:", "'replay:<schedule>'"),
        ("schedule", None, "'round_robin'"),
    ],
)
def test_unknown_values_are_refused_with_the_valid_ones(field, value, said):
    with pytest.raises(ValueError, match=field) as caught:
        pallas_rs.Params(**{field: value})
    assert said in str(caught.value)
    assert repr(value) in str(caught.value)


def test_strict_watches_everything():
    strict = pallas_rs.Params.strict(seed=7)
    assert (strict.detect_races, strict.uninitialized_reads) == (True, "raise")
    assert (strict.strict_proxy, strict.limits, strict.seed) == (True, "check", 7)
    assert pallas_rs.Params.strict(strict_proxy=False).strict_proxy is False


@pytest.mark.parametrize(
    ("schedule", "option"),
    [
        ("round_robin", "round_robin"),
        ("random", "random"),
        ("pct", {"pct": 3}),
        ("pct:7", {"pct": 7}),
        ("replay:0:1,2", {"replay": "0:1,2"}),
    ],
)
def test_schedules_as_options(schedule, option):
    assert pallas_rs.Params(schedule=schedule).to_options()["schedule"] == option


@pytest.mark.parametrize("trace", ["a/{kernel}.json", pathlib.Path("a") / "{kernel}.json"])
def test_a_trace_may_be_named_after_its_kernel(trace):
    options = pallas_rs.Params(trace=trace).to_options("of/mine")
    assert options["trace"] == str(pathlib.Path("a") / "of_mine.json")


def test_logging_modes_as_options():
    mode = Logging.BARRIER | Logging.SHARED_MEMORY
    options = pallas_rs.Params(logging_mode=mode).to_options()
    assert options["logging"] == ["barrier", "shared_memory"]
    assert pallas_rs.Params().to_options()["logging"] == []
