"""One GPU's memory as an SVG: a bar from weights to what is left."""

from __future__ import annotations

from html import escape

from build_engines.plan.memory import Memory

__all__ = ["memory_svg"]

_WIDTH, _LEFT, _TOP, _HEIGHT = 760, 20, 50, 60
_COLOURS = {
    "weights": "#4c78a8",
    "activations": "#f58518",
    "reserve": "#9d755d",
    "KV cache": "#54a24b",
    "left free": "#e4e4e4",
}


def memory_svg(memory: Memory, title: str) -> str:
    """The picture's text. A GPU that is too small is drawn with a line where it ends."""
    parts = {
        "weights": memory.weights,
        "activations": memory.activations,
        "reserve": memory.reserve,
        "KV cache": memory.kv,
        "left free": max(0, memory.free - memory.kv),
    }
    scale = (_WIDTH - 2 * _LEFT) / max(memory.total, sum(parts.values()))
    rows, x = [_text(_LEFT, 28, title, 16)], float(_LEFT)
    for index, (name, size) in enumerate(parts.items()):
        width = size * scale
        rows.append(_box(x, _TOP, width, _HEIGHT, _COLOURS[name]))
        y = _TOP + _HEIGHT + 26 + 20 * index
        rows += [_box(_LEFT, y - 11, 12, 12, _COLOURS[name]), _text(_LEFT + 20, y, f"{name}: {size / 1e9:.2f} GB", 13)]
        x += width
    end = _LEFT + memory.total * scale
    rows.append(f'<line x1="{end:.1f}" x2="{end:.1f}" y1="{_TOP - 8}" y2="{_TOP + _HEIGHT + 8}" stroke="#b00"/>')
    rows.append(_text(end - 96, _TOP - 12, f"{memory.total / 1e9:.0f} GB of GPU", 12))
    height = _TOP + _HEIGHT + 20 * len(parts) + 30
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">'
    return "\n".join([head, *rows, "</svg>", ""])


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'
