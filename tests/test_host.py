"""Services given to the machine, asked for directly."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pallas_rs import _host


def stablehlo(function, *args) -> bytes:
    module = jax.jit(function).lower(*args).compiler_ir("stablehlo")
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def triple(array):
    return _host._to_triple(np.asarray(array))


def test_a_module_is_compiled_once():
    x = np.arange(6, dtype=np.float32)
    module = stablehlo(lambda x: (jnp.sort(-x), x.sum()), x)
    for _ in range(2):
        ordered, total = _host.xla_call("sort", module, [triple(x)])
    assert ordered == triple(np.sort(-x))
    assert total == triple(np.float32(15))
    assert module in _host._compiled


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint2", "bfloat16", "float8_e4m3fn", "int64"])
def test_arrays_keep_type_and_value(dtype):
    x = np.array([[0, 1], [1, 0]]).astype(jnp.dtype(dtype))
    back = _host._from_triple(triple(x))
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back.astype(np.float32), x.astype(np.float32))


def test_narrow_integers_cross_sign_extended():
    x = np.array([-1, -8, 7]).astype(jnp.int4)
    assert triple(x) == ("int4", (3,), b"\xff\xf8\x07")
    np.testing.assert_array_equal(_host._from_triple(triple(x)), x)


def test_a_line_is_formatted_and_prefixed(capsys):
    _host.print_line("[block 3] ", "x={} y={}", [triple(np.int32(4)), triple(np.arange(2))])
    assert capsys.readouterr().out == "[block 3] x=4 y=[0 1]\n"


def test_callbacks_are_called_by_number():
    number = _host.register_callback(lambda x: (x + 1,))
    assert _host.callback(number, [triple(np.int32(4))]) == [triple(np.int32(5))]
    silent = _host.register_callback(lambda: None)
    assert _host.callback(silent, []) == []


def test_a_callback_of_another_process_is_not_known():
    with pytest.raises(LookupError, match="the process that lowered the kernel"):
        _host.callback(10**9, [])
