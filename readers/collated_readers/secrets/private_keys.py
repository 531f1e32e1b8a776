"""Private keys in PEM armour, whole or cut off anywhere. Pure.

A text may hold only the beginning, the middle or the end of a key. What has a `BEGIN` or `END`
of something else (a certificate, a public key) stays. Lines of base64 without either are taken
for the middle of a key where two or more follow each other that are as long as PEM makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["PRIVATE_KEY", "without_private_keys"]

PRIVATE_KEY = "<<redacted:private_key>>"

_FULL_WIDTHS = (64, 70)  # PEM, and OpenSSH; pictures and mail are wrapped at 76
_SHORTEST_FULL = min(_FULL_WIDTHS)
_MARK = "PRIVATE KEY"
_ARMOUR = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"

# A key on one line, as JSON and environment files have it, with its line ends written `\n`; the second has
# lost its beginning.
_BREAK = r"(?:\\{1,4}[nr]| )"
_INLINE_HEADER = rf"(?:{_BREAK}++[A-Z][A-Za-z]{{2,8}}-[A-Z][a-z]{{3,4}}: [A-Za-z0-9,-]++)"
_INLINE_BODY = rf"(?:{_BREAK}|[A-Za-z0-9+/=])++"
_INLINE = re.compile(
    rf"-----BEGIN {_ARMOUR}{_INLINE_HEADER}{{0,4}}{_BREAK}*+"
    rf"(?:{_INLINE_BODY}-----END {_ARMOUR}|(?=[A-Za-z0-9+/]{{16}}){_INLINE_BODY})"
)
_INLINE_END = re.compile(rf"(?<![A-Za-z0-9+/=\\])[A-Za-z0-9+/=\\]{{16,}}+-----END {_ARMOUR}")

# What may stand around the base64 of a line: comment signs and quotes before, line ends and quotes behind.
_BEFORE = r"[ \t]*+(?:[#*+>|/\"'`-]{1,3}[ \t]*+)?"
_BASE64 = re.compile(
    rf"{_BEFORE}(?P<key>[A-Za-z0-9+/]++={{0,2}}+|=[A-Za-z0-9+/]{{4}})"
    r"(?:\\[nr]){0,2}[\"'`]{0,3}[ \t]*+[+,;.\\)]{0,3}[ \t]*+\r?"
)
_HEADER = re.compile(rf"{_BEFORE}(?:[A-Z][A-Za-z]{{1,11}}(?:-[A-Z][a-z]{{1,6}})?: .*)?\r?")
_EDGE = re.compile(rf"-----(?P<side>BEGIN|END) (?P<private>{_ARMOUR})?")

# Each line is one letter: B and E the edges of a private key, b and e of anything else, f base64 of full
# width, s shorter base64 that is surely no word, t what may be base64, w a word, h a header or nothing.
_BLOCK = re.compile("[Bb]?[fstwh]*+[Ee]?")
_MIDDLE = re.compile("[st]?f{2,}+[st]?")
_SHORTEST_SURE = 24


def without_private_keys(text: str) -> str:
    """Return *text* with every line of a private key replaced, the number of lines unchanged."""
    if _MARK in text:
        text = _INLINE_END.sub(PRIVATE_KEY, _INLINE.sub(PRIVATE_KEY, text))
    elif not any(_BASE64.fullmatch(line) for line in text.split("\n") if len(line) >= _SHORTEST_FULL):
        return text
    lines = text.split("\n")
    kinds = "".join(map(_kind, lines))
    for block in _BLOCK.finditer(kinds):
        for first, last in _secret_runs(block.group()):
            for number in range(block.start() + first, block.start() + last):
                lines[number] = _replaced(lines[number])
    return "\n".join(lines)


def _kind(line: str) -> str:
    if edge := _EDGE.search(line):
        letter = edge["side"][0]
        return letter if edge["private"] else letter.lower()
    if found := _BASE64.fullmatch(line):
        return _kind_of_base64(found["key"])
    return "h" if _HEADER.fullmatch(line) else "o"


def _kind_of_base64(key: str) -> str:
    if key.isalpha() and key.islower():
        return "w"
    if key.isalpha() or key.islower() or key.isupper() or key.isdigit():  # a name, a hash, a number
        return "t"
    if len(key) in _FULL_WIDTHS:
        return "f"
    return "s" if len(key) >= _SHORTEST_SURE else "t"


def _secret_runs(block: str) -> Iterator[tuple[int, int]]:
    """Yield where in *block*, some lines' kinds, lines of a key are."""
    starts, ends = block.startswith("B"), block.endswith("E")
    if starts or ends:
        body = [
            number for number, kind in enumerate(block) if kind in "fst" or (kind == "w" and starts and ends)
        ]
        if body:
            yield (0 if starts else body[0]), (len(block) if ends else body[-1] + 1)
    elif block[:1] != "b" and block[-1:] != "e":
        for middle in _MIDDLE.finditer(block):
            yield middle.span()


def _replaced(line: str) -> str:
    if edge := _EDGE.search(line):
        return line[: edge.start()] + PRIVATE_KEY + line[edge.end() :]
    if found := _BASE64.fullmatch(line):
        return line[: found.start("key")] + PRIVATE_KEY + line[found.end("key") :]
    return PRIVATE_KEY if line.strip() else line
