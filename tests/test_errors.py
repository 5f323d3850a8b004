"""Error classes and the texts that name them."""

import jax
import pallas_rs
import pytest
from pallas_rs import _errors


def test_class_and_code_come_from_the_first_line():
    text = "INTERNAL: pallas_rs.RaceError[PRS-C3]: two writes meet\n  (1) here\nreplay: Params()"
    error = _errors.error_from_text(text)
    assert type(error) is pallas_rs.RaceError
    assert error.code == "PRS-C3"
    assert str(error).startswith("pallas_rs.RaceError[PRS-C3]: two writes meet")


def test_a_code_may_be_missing():
    error = _errors.error_from_text("pallas_rs.InternalError: index out of range")
    assert type(error) is pallas_rs.InternalError
    assert error.code is None


@pytest.mark.parametrize("text", ["", "RaceError: no", "pallas_rs.Params(seed=1): no"])
def test_other_texts_name_no_error(text):
    assert _errors.error_from_text(text) is None


def test_unsupported_is_also_not_implemented():
    assert issubclass(pallas_rs.UnsupportedError, NotImplementedError)
    assert issubclass(pallas_rs.UnsupportedError, pallas_rs.KernelError)


def test_foreign_errors_pass_typed_errors_unchanged():
    foreign = ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError) as caught, pallas_rs.typed_errors():
        raise foreign
    assert caught.value is foreign


def test_an_error_of_jax_becomes_typed():
    text = "INVALID_ARGUMENT: pallas_rs.DeadlockError[PRS-E1]: all threads wait"
    with pytest.raises(pallas_rs.DeadlockError) as caught, pallas_rs.typed_errors():
        raise jax.errors.JaxRuntimeError(text)
    assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError)
