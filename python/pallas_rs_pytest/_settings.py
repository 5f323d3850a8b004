"""How the kernels of a test are run: what the command line says, and then the test's marker."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from typing import Any

import pallas_rs
import pytest


@dataclasses.dataclass(frozen=True)
class Settings:
    """How kernels are run.

    Attributes:
        target: The simulated device.
        cores: Its cores, or None for as many as it has.
        params: What is watched, and the schedule.
        expect: Codes of findings that a test is about.
        interpret: Whether kernels are interpreted at all.
    """

    target: str
    cores: int | None
    params: pallas_rs.Params
    expect: tuple[str, ...] = ()
    interpret: bool = True

    def of(self, item: pytest.Item) -> Settings:
        """The same, as the test's markers change it; the closest one wins."""
        settings = self
        for marker in reversed(list(item.iter_markers("pallas_rs"))):
            settings = settings._changed(item.nodeid, marker)
        return settings

    def _changed(self, test: str, marker: pytest.Mark) -> Settings:
        if marker.args:
            raise pytest.UsageError(f"{test}: the marker pallas_rs takes keyword arguments only")
        fields: dict[str, Any] = dict(marker.kwargs)
        expect = fields.pop("expect", self.expect)
        changes: dict[str, Any] = {
            "expect": (expect,) if isinstance(expect, str) else tuple(expect),
            "interpret": fields.pop("interpret", self.interpret),
            "cores": fields.pop("cores", self.cores),
            "target": fields.pop("target", self.target),
        }
        known = [field.name for field in dataclasses.fields(self.params)]
        for name in fields:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise pytest.UsageError(f"{test}: the marker pallas_rs has no {name!r}{hint}")
        try:
            params = dataclasses.replace(self.params, **fields)
        except ValueError as error:
            raise pytest.UsageError(f"{test}: the marker pallas_rs: {error}") from error
        return dataclasses.replace(self, params=params, **changes)

    def context(self) -> contextlib.AbstractContextManager[None]:
        """Inside, kernels are run this way."""
        if not self.interpret:
            return contextlib.nullcontext()
        return pallas_rs.simulate(self.target, cores=self.cores, params=self.params)

    def __str__(self) -> str:
        fields = dataclasses.fields(self.params)
        own = [
            f"{f.name}={value!r}"
            for f in fields
            if (value := getattr(self.params, f.name)) != f.default
        ]
        cores = [] if self.cores is None else [f"{self.cores} cores"]
        return ", ".join([self.target, *cores, *own])


def from_options(options: Any) -> Settings:
    """What the command line says."""
    fields: dict[str, Any] = {}
    if options.pallas_rs_races:
        fields["detect_races"] = True
    if options.pallas_rs_seeds is not None:
        fields["seeds"] = options.pallas_rs_seeds
        fields["async_completion"] = "random"
        fields["schedule"] = "random"
    if options.pallas_rs_schedule is not None:
        fields["schedule"] = options.pallas_rs_schedule
    make = pallas_rs.Params.strict if options.pallas_rs_strict else pallas_rs.Params
    try:
        params = make(**fields)
    except ValueError as error:
        raise pytest.UsageError(f"--pallas-rs: {error}") from error
    return Settings(options.pallas_rs, options.pallas_rs_cores, params)
