"""A virtual device answers what kernels ask."""

import threading

import jax
import pallas_rs
import pytest
from jax._src import lib as jax_lib
from jax.extend import backend


def test_questions_are_answered_as_by_the_target():
    with pallas_rs.simulate("b200", cores=4):
        for device in (jax.devices()[0], backend.get_default_device()):
            assert device.core_count == 4
            assert device.compute_capability == "10.0"
            assert "B200" in device.device_kind
            assert device.platform == "gpu"
        abstract = jax.sharding.get_abstract_mesh().abstract_device
        assert (abstract.num_cores, abstract.platform) == (4, "gpu")
        assert jax_lib.cuda_versions.cuda_runtime_get_version() >= 12091


def test_nothing_is_left_behind():
    kind = jax.devices()[0].device_kind
    with pallas_rs.simulate("h100"), pallas_rs.simulate("a100"):
        assert jax.devices()[0].core_count == 108
    assert jax.devices()[0].device_kind == kind
    assert not hasattr(jax.devices()[0], "core_count")
    assert jax.devices()[0].platform == "cpu"
    assert jax_lib.cuda_versions is None
    assert jax.sharding.get_abstract_mesh().empty


def test_other_threads_see_the_real_device():
    seen = []
    with pallas_rs.simulate("h100"):
        thread = threading.Thread(
            target=lambda: seen.append(getattr(jax.devices()[0], "core_count", None))
        )
        thread.start()
        thread.join()
    assert seen == [None]


def test_computations_inside_run_as_usual():
    with pallas_rs.simulate("h100"):
        assert jax.jit(lambda x: x + 1)(1) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"target": "v100"}, "'a100', 'h100'"),
        ({"cores": pallas_rs.Params()}, "params=... meant"),
        ({"cores": 0}, ">= 1"),
        ({"target": "h100", "params": pallas_rs.Params(target="b200")}, "b200"),
    ],
)
def test_what_cannot_be_simulated_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said), pallas_rs.simulate(**arguments):
        pass
