"""Text of stores made harmless: what could move, hide or reorder things on a terminal is shown as text."""

__all__ = ["visible", "visible_text"]

# C0, DEL and C1 hold every terminal command; the rest reorder or break lines without being seen.
_HIDDEN = (
    *range(0x00, 0x20),
    *range(0x7F, 0xA0),
    0x061C,  # Arabic letter mark
    *range(0x200E, 0x2010),  # left-to-right and right-to-left marks
    *range(0x2028, 0x202F),  # line and paragraph separators, embeddings and overrides
    *range(0x2066, 0x206A),  # isolates
)
_NAMED = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}


def _escape(point: int) -> str:
    return _NAMED.get(point) or (f"\\x{point:02x}" if point <= 0xFF else f"\\u{point:04x}")  # noqa: PLR2004 - a byte


_LINE = {point: _escape(point) for point in _HIDDEN}
_TEXT = {point: shown for point, shown in _LINE.items() if point not in (0x09, 0x0A)}


def visible(text: str) -> str:
    r"""Return *text* as one line: a control character becomes its escape, `\x1b`, `\n`, `\u202e`."""
    return text.translate(_LINE)


def visible_text(text: str) -> str:
    """Return *text* with its line feeds and tabs kept and every other control character escaped."""
    return text.translate(_TEXT)
