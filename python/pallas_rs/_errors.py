"""What can be wrong with a kernel, as exception classes.

Under ``jit`` XLA hands over text and JAX raises its own exception; `typed_errors`
raises the class that the text names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pallas_rs._report import Report


class KernelError(Exception):
    """A kernel did something that it must not do, or that cannot be run.

    Attributes:
        code: Code of the finding (``PRS-C3``), if it has one.
        report: Report of the run, if there was one.
    """

    code: str | None = None
    report: Report | None = None


class RaceError(KernelError):
    """Two accesses to the same memory, at least one a write, without an order."""


class BarrierError(KernelError):
    """A barrier is used against its protocol."""


class DeadlockError(KernelError):
    """Every thread waits for something that cannot happen any more."""


class OutOfBoundsError(KernelError):
    """An access outside its array."""


class UninitializedReadError(KernelError):
    """A read of memory that nothing has written."""


class ResourceError(KernelError):
    """More of something than the device has: memory, columns, barriers, threads."""


class InvalidGridError(KernelError):
    """A grid that cannot be run: a negative bound, or a product out of range."""


class ArithmeticFaultError(KernelError):
    """An integer operation without a result, such as a division by zero."""


class UnsupportedError(KernelError, NotImplementedError):
    """Something of Pallas, or of this use of it, that pallas_rs does not run."""


class InternalError(KernelError):
    """A bug of pallas_rs, or parts of different versions of it."""


_CLASSES: dict[str, type[KernelError]] = {
    cls.__name__: cls
    for cls in (
        KernelError,
        RaceError,
        BarrierError,
        DeadlockError,
        OutOfBoundsError,
        UninitializedReadError,
        ResourceError,
        InvalidGridError,
        ArithmeticFaultError,
        UnsupportedError,
        InternalError,
    )
}

_FIRST_LINE = re.compile(rf"pallas_rs\.(?P<cls>{'|'.join(_CLASSES)})(?:\[(?P<code>[\w-]+)\])?: ")


def error_from_text(text: str, report: Report | None = None) -> KernelError | None:
    """The error that a text speaks of; JAX and XLA may have put words before it."""
    found = _FIRST_LINE.search(text)
    if found is None:
        return None
    error = _CLASSES[found["cls"]](text[found.start() :])
    error.code = found["code"]
    error.report = report
    return error


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Raises failures of kernels inside as `KernelError`, with ``.report``.

    Waits for the runs started inside: XLA may still be at work when a jitted function
    returns, and would tell of the failure only when the result is looked at.
    """
    from pallas_rs import _report

    before = _report.last_run_id()
    try:
        yield
    except KernelError:
        raise
    except Exception as raised:
        error = error_from_text(str(raised))
        if error is None:
            raise
        _report.settle()
        error.report = _report.report_of_failure(str(raised))
        raise error from raised
    _report.settle()
    for report in _report.reports():
        if report.run_id > before and report.failure is not None:
            error = error_from_text(report.failure, report)
            if error is not None:
                raise error
