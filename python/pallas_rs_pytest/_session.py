"""What happens around each test, and what is said at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Any

import pallas_rs
import pytest
from pallas_rs import _errors, _report

from pallas_rs_pytest._settings import from_options
from pallas_rs_pytest._summary import Summary

_TEXT = pytest.StashKey[str]()


class KernelFinding(Exception):
    """A test whose kernels have findings that it does not expect, or lack those it does."""


class Session:
    """Hooks of a run with ``--pallas-rs``."""

    def __init__(self, config: pytest.Config) -> None:
        self._defaults = from_options(config.option)
        self._fails = (
            ("error",)
            if config.option.pallas_rs_fail_on == "error"
            else (
                "error",
                "warning",
            )
        )
        self._summary = Summary()
        self._config = config

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        """Modules ask for the device when they are imported, to skip what it cannot run."""
        with self._defaults.context():
            return (yield)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """A marker that makes no sense stops the session before anything runs."""
        for item in items:
            self._defaults.of(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fixtures may run kernels as well."""
        with self._interpreted(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """The test itself: what its kernels did is part of its outcome."""
        settings = self._defaults.of(item)
        before = _report.last_run_id()
        failure = None
        result = None
        with self._interpreted(item):
            try:
                result = yield
            except Exception as raised:
                error = _errors.error_from_text(str(raised))
                if error is None:
                    raise
                failure = (raised, error)
            finally:
                _report.settle()
                reports = [r for r in _report.reports() if r.run_id > before]
                self._summary.add(reports, _report.last_run_id() - before)
        found = [f for report in reports for f in report.findings]
        codes = {finding.code for finding in found}
        if failure is not None:
            exception, error = failure
            codes.add(error.code or "")
            if error.code not in settings.expect:
                item.stash[_TEXT] = str(error)
                raise exception
        unexpected = [
            f for f in found if f.severity in self._fails and f.code not in settings.expect
        ]
        if unexpected:
            raise KernelFinding("\n\n".join(f.text for f in unexpected))
        missing = [code for code in settings.expect if code not in codes]
        if missing and settings.interpret:
            seen = ", ".join(sorted(codes)) or "nothing"
            raise KernelFinding(f"expected {', '.join(missing)}, and found {seen}")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fixtures may run kernels as well."""
        with self._interpreted(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The failure text of a kernel's failure is its report; the traceback follows it."""
        report = yield
        if call.excinfo is None or not report.failed:
            return report
        if isinstance(call.excinfo.value, KernelFinding):
            report.longrepr = str(call.excinfo.value)
        elif call.when == "call" and _TEXT in item.stash:
            line = call.excinfo.traceback[-1]
            for entry in call.excinfo.traceback:
                if str(entry.path) == str(item.path):
                    line = entry
            where = f"raised in {item.nodeid}, at {line.path}:{line.lineno + 1}"
            report.longrepr = f"{item.stash[_TEXT]}\n\n{where}"
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of xdist hands its counts to the controller."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["pallas_rs"] = self._summary.to_data()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """The controller of xdist takes a worker's counts."""
        del error
        data = getattr(node, "workeroutput", {}).get("pallas_rs")
        if data is not None:
            self._summary.merge(data)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What kernels did, all tests together."""
        terminalreporter.section(f"pallas-rs {pallas_rs.__version__}")
        for line in self._summary.lines(self._defaults):
            terminalreporter.write_line(line)

    def pytest_report_header(self) -> str:
        """How kernels are run."""
        return f"pallas-rs: {self._defaults}"

    @contextlib.contextmanager
    def _interpreted(self, item: pytest.Item) -> Iterator[None]:
        settings = self._defaults.of(item)
        with settings.context():
            yield
