"""Text as TOML and JSON take it, and no terminal acts on. Pure."""

__all__ = ["can_quote", "quoted"]

_MARKS = {'"': '\\"', "\\": "\\\\"}
_WIDEST_SHORT = 0xFFFF


def quoted(text: str) -> str:
    """Return *text* as a basic string of TOML; whatever does not print is written as its escape."""
    return '"' + "".join(map(_escaped, text)) + '"'


def can_quote(text: str) -> bool:
    """Tell whether *text* is Unicode: a path that is not UTF-8 holds what no TOML can say."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _escaped(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    if character.isprintable():
        return character
    point = ord(character)
    return f"\\u{point:04X}" if point <= _WIDEST_SHORT else f"\\U{point:08X}"
