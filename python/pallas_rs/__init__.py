"""Runs JAX Pallas GPU kernels on a CPU, and says what is wrong with them.

Pass ``interpret=pallas_rs.Params()`` to ``pl.pallas_call`` or ``plgpu.kernel``.
"""

from pallas_rs import _jax_internals

_jax_internals.check_jax()

from pallas_rs import _ad, _ffi, _hook  # noqa: E402
from pallas_rs._compare import Comparison as Comparison  # noqa: E402
from pallas_rs._compare import OutputComparison as OutputComparison  # noqa: E402
from pallas_rs._compare import compare as compare  # noqa: E402
from pallas_rs._compare import load_comparison as load_comparison  # noqa: E402
from pallas_rs._core import __version__ as __version__  # noqa: E402
from pallas_rs._errors import ArithmeticFaultError as ArithmeticFaultError  # noqa: E402
from pallas_rs._errors import BarrierError as BarrierError  # noqa: E402
from pallas_rs._errors import DeadlockError as DeadlockError  # noqa: E402
from pallas_rs._errors import InternalError as InternalError  # noqa: E402
from pallas_rs._errors import InvalidGridError as InvalidGridError  # noqa: E402
from pallas_rs._errors import KernelError as KernelError  # noqa: E402
from pallas_rs._errors import OutOfBoundsError as OutOfBoundsError  # noqa: E402
from pallas_rs._errors import RaceError as RaceError  # noqa: E402
from pallas_rs._errors import ResourceError as ResourceError  # noqa: E402
from pallas_rs._errors import UninitializedReadError as UninitializedReadError  # noqa: E402
from pallas_rs._errors import UnsupportedError as UnsupportedError  # noqa: E402
from pallas_rs._errors import typed_errors as typed_errors  # noqa: E402
from pallas_rs._ffi import disabled_safety_checks as disabled_safety_checks  # noqa: E402
from pallas_rs._hook import force_interpret_mode as force_interpret_mode  # noqa: E402
from pallas_rs._params import Params as Params  # noqa: E402
from pallas_rs._report import Finding as Finding  # noqa: E402
from pallas_rs._report import Report as Report  # noqa: E402
from pallas_rs._report import last_report as last_report  # noqa: E402
from pallas_rs._report import reports as reports  # noqa: E402
from pallas_rs._simulate import simulate as simulate  # noqa: E402
from pallas_rs._timeline import Timeline as Timeline  # noqa: E402
from pallas_rs._timeline import timeline as timeline  # noqa: E402

_ffi.register()
_hook.install()
_ad.install()
