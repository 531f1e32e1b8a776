"""Small multiples of lines over two logarithmic axes, as SVG. Pure."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from msgspec import Struct

__all__ = ["Line", "Panel", "draw"]

_COLUMNS = 3
_WIDTH, _HEIGHT = 300, 220  # of a panel's field
_LEFT, _TOP, _GAP_X, _GAP_Y, _BOTTOM = 74, 84, 34, 62, 56
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:16px;font-weight:600}"
    ".panel{font-size:13px;font-weight:600}.grid{stroke:#e4e4e4}.frame{fill:none;stroke:#999}"
    ".line{fill:none;stroke-width:2.2}"
)


class Line(Struct, frozen=True):
    """One contender's points, (x, y), both above nought."""

    name: str
    colour: str
    points: tuple[tuple[float, float], ...]


class Panel(Struct, frozen=True):
    """One field with its lines."""

    title: str
    lines: tuple[Line, ...]


class _Scale(Struct, frozen=True):
    """Where a value lies on an axis of *length* pixels between two powers or values."""

    least: float
    most: float
    length: float

    def place(self, value: float) -> float:
        span = math.log(self.most / self.least) or 1.0
        return self.length * math.log(value / self.least) / span


def draw(title: str, x_label: str, panels: Sequence[Panel]) -> str:
    """Return the picture; y values are seconds. All panels have the same axes."""
    points = [point for panel in panels for line in panel.lines for point in line.points]
    xs = sorted({x for x, _ in points})
    ys = [y for _, y in points]
    across = _Scale(xs[0], xs[-1], _WIDTH)
    lowest, highest = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    up = _Scale(10.0**lowest, 10.0 ** max(highest, lowest + 1), _HEIGHT)
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    width = _LEFT + columns * _WIDTH + (columns - 1) * _GAP_X + 24
    height = _TOP + rows * _HEIGHT + (rows - 1) * _GAP_Y + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{_LEFT}" y="26">{escape(title)}</text>',
        *_legend(panels[0].lines),
    ]
    for position, panel in enumerate(panels):
        row, column = divmod(position, columns)
        x, y = _LEFT + column * (_WIDTH + _GAP_X), _TOP + row * (_HEIGHT + _GAP_Y)
        parts.append(f'<g transform="translate({x},{y})">')
        parts += _field(panel, across, up, xs, is_first=column == 0)
        parts.append("</g>")
    parts.append(
        f'<text x="{_LEFT + (width - _LEFT) / 2:.0f}" y="{height - 12}" text-anchor="middle">'
        f"{escape(x_label)}</text></svg>"
    )
    return "\n".join(parts) + "\n"


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    x = _LEFT
    for line in lines:
        yield f'<line class="line" x1="{x}" x2="{x + 26}" y1="46" y2="46" stroke="{line.colour}"/>'
        yield f'<text x="{x + 32}" y="50">{escape(line.name)}</text>'
        x += 52 + 7 * len(line.name)


def _field(panel: Panel, across: _Scale, up: _Scale, xs: Sequence[float], *, is_first: bool) -> Iterator[str]:
    for exponent in range(round(math.log10(up.least)), round(math.log10(up.most)) + 1):
        y = _HEIGHT - up.place(10.0**exponent)
        yield f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        if is_first:
            yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{_seconds(exponent)}</text>'
    for x in xs:
        place = across.place(x)
        yield f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="0" y2="{_HEIGHT}"/>'
        yield f'<text x="{place:.1f}" y="{_HEIGHT + 17}" text-anchor="middle">{_short(x)}</text>'
    yield f'<rect class="frame" width="{_WIDTH}" height="{_HEIGHT}"/>'
    yield f'<text class="panel" x="2" y="-8">{escape(panel.title)}</text>'
    for line in panel.lines:
        places = [(across.place(x), _HEIGHT - up.place(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="line" stroke="{line.colour}" points="{path}"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'


def _seconds(exponent: int) -> str:
    """Return a power of ten of seconds in a unit of people's."""
    for unit, above in (("s", 0), ("ms", -3), ("µs", -6)):
        if exponent >= above:
            return f"{10 ** (exponent - above):,} {unit}"
    return f"1e{exponent} s"


def _short(value: float) -> str:
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"
