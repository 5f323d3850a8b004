"""A static picture of one block's timeline, as SVG."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pallas_rs._report import Report

# Things in a picture: more are a matter for an interactive viewer.
_MOST = 400
_STEP, _ROW, _BAR, _LEFT, _TOP = 14, 34, 20, 130, 48
_COLOURS = {
    "access": "#9ecae1",
    "arrive": "#74c476",
    "wait": "#d9d9d9",
    "wait for copies": "#d9d9d9",
    "commit_smem": "#c994c7",
    "issue": "#fdae6b",
    "waits for ever": "#e34a33",
}
_ENGINE_COLOUR = "#6baed6"


@dataclasses.dataclass(frozen=True)
class Timeline:
    """A picture; a notebook shows it.

    Attributes:
        svg: The picture as SVG.
    """

    svg: str

    def save(self, path: str | Path) -> None:
        """Writes it to a file."""
        Path(path).write_text(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg


def timeline(trace: Report | str | Path, block: int | None = None) -> Timeline:
    """Draws what the threads and engines of one block did, and who waited for whom.

    Time is logical: from left to right in the order of the run, one column for each moment
    at which something began or ended.

    Args:
        trace: A file that ``Params(trace=...)`` wrote, or the report of that run.
        block: Number of the block, or None: the first one in which a thread is stuck, else
            the first one.

    Raises:
        ValueError: The report's run was not traced, or the trace has no such block.
    """
    if isinstance(trace, Report):
        if trace.trace is None:
            raise ValueError(
                f"the run of `{trace.kernel}` was not traced: run it with Params(trace='run.json')"
            )
        trace = trace.trace
    data = json.loads(Path(trace).read_text())
    return Timeline(_Picture(data, block).draw())


class _Picture:
    def __init__(self, data: Mapping[str, Any], block: int | None) -> None:
        events = data["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        blocks = sorted({event["pid"] for event in slices})
        stuck = [event["pid"] for event in slices if event.get("cat") == "stuck"]
        if block is None:
            block = (stuck or blocks or [0])[0]
        elif block not in blocks:
            raise ValueError(f"block={block}: the trace has blocks {blocks[0]} to {blocks[-1]}")
        self._kernel = data["otherData"]["kernel"]
        mine = [event for event in events if event["pid"] == block]
        self._block = next(
            (e["args"]["name"] for e in mine if e["name"] == "process_name"), f"block {block}"
        )
        self._lanes = {e["tid"]: e["args"]["name"] for e in mine if e["name"] == "thread_name"}
        everything = sorted((e for e in mine if e["ph"] == "X"), key=lambda e: e["ts"] + e["dur"])
        # What led to a standstill is at the end.
        self._slices = everything[-_MOST:]
        self._left_out = len(everything) - len(self._slices)
        self._arrows = _arrows(mine)
        times = {e["ts"] for e in self._slices} | {e["ts"] + e["dur"] for e in self._slices}
        self._columns = {time: i for i, time in enumerate(sorted(times))}
        self._rows = {tid: i for i, tid in enumerate(sorted(self._lanes))}

    def draw(self) -> str:
        notes = [
            f"{self._lanes[e['tid']]}: {e['args']['state']} ({e['args']['line']})"
            for e in self._slices
            if e.get("cat") == "stuck"
        ]
        width = _LEFT + _STEP * max(len(self._columns), 1) + 20
        width = max(width, _LEFT + 7 * max((len(note) for note in notes), default=40))
        height = _TOP + _ROW * len(self._rows) + 20 * len(notes) + 20
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            '<defs><marker id="head" markerWidth="7" markerHeight="6" refX="6" refY="3"'
            ' orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="#238b45"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _text(8, 18, f"{self._kernel}, {self._block}", "bold"),
            _text(8, 35, self._caption(), colour="#666"),
        ]
        parts += [self._lane(tid, width) for tid in self._rows]
        parts += [self._slice(event) for event in self._slices]
        parts += [self._arrow(*arrow) for arrow in self._arrows]
        bottom = _TOP + _ROW * len(self._rows) + 16
        parts += [
            _text(8, bottom + 20 * i, note, colour=_COLOURS["waits for ever"])
            for i, note in enumerate(notes)
        ]
        return "\n".join([*parts, "</svg>"])

    def _caption(self) -> str:
        caption = "logical time: the order of the run"
        if self._left_out:
            caption += f"; {self._left_out} earlier things are left out"
        return caption

    def _lane(self, tid: int, width: int) -> str:
        y = _TOP + _ROW * self._rows[tid]
        line = y + _BAR / 2
        return f'<line x1="{_LEFT}" x2="{width}" y1="{line}" y2="{line}" stroke="#eee"/>' + _text(
            8, y + 15, self._lanes[tid]
        )

    def _x(self, time: int) -> int:
        return _LEFT + _STEP * self._columns[time]

    def _slice(self, event: Mapping[str, Any]) -> str:
        x, end = self._x(event["ts"]), self._x(event["ts"] + event["dur"])
        y = _TOP + _ROW * self._rows[event["tid"]]
        args = event["args"]
        title = "\n".join(
            str(part)
            for part in (event["name"], args.get("state"), args.get("line"), args.get("function"))
            if part
        )
        colour = _COLOURS.get(event["name"], _ENGINE_COLOUR)
        box = (
            f'<rect x="{x}" y="{y}" width="{max(end - x, 3)}" height="{_BAR}" fill="{colour}"'
            f' stroke="white"/>'
        )
        label = _label(event)
        shown = _text(x + 3, y + 14, label) if 7 * len(label) < end - x else ""
        return f"<g><title>{html.escape(title)}</title>{box}{shown}</g>"

    def _arrow(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> str:
        # An arrow of a slice that was left out has no place.
        ends = []
        for event in (start, end):
            time = event["ts"] + 1
            if time not in self._columns or event["tid"] not in self._rows:
                return ""
            ends.append((self._x(time), _TOP + _ROW * self._rows[event["tid"]] + _BAR / 2))
        (x1, y1), (x2, y2) = ends
        return (
            f'<line x1="{x1 - 4}" y1="{y1}" x2="{x2 - 4}" y2="{y2}" stroke="#238b45"'
            ' marker-end="url(#head)"/>'
        )


def _arrows(events: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = (event for event in events if event["ph"] == "f")
    return [(starts[end["id"]], end) for end in ends if end["id"] in starts]


def _label(event: Mapping[str, Any]) -> str:
    line = str(event["args"].get("line", "")).rpartition(":")[2]
    return f"{event['name']} :{line}" if line else str(event["name"])


def _text(x: float, y: float, text: str, weight: str = "normal", colour: str = "#222") -> str:
    return (
        f'<text x="{x}" y="{y}" font-weight="{weight}" fill="{colour}">{html.escape(text)}</text>'
    )
