"""Private keys, whole or cut off anywhere, and what is in other armour or only as long."""

from __future__ import annotations

import pytest

from collated_readers.secrets import redacted

# Every secret here is made up, and put together so that no line of this file looks like one.
NOISE = "aB3dE5" + "fG7hI9jK" + "1lM2nO4pQ6" + "rS8tU0vW2xY"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
LINE = ("MIIEvQ" + NOISE * 3)[:64]
BEGIN = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"
KEY = "<<redacted:private_key>>"


WHOLE = [BEGIN, LINE, LINE, LINE, "aBc3/+==", END]


@pytest.mark.parametrize(
    ("first", "last"), [(0, 6), (0, 2), (0, 3), (0, 5), (1, 3), (1, 4), (1, 5), (2, 6), (3, 6), (4, 6)]
)
@pytest.mark.parametrize("indent", ["", "    ", "# ", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_private_key_that_is_cut_off_anywhere(first: int, last: int, indent: str, end: str) -> None:
    lines = ["before = 1", *(indent + line for line in WHOLE[first:last]), "after()"]
    wanted = ["before = 1", *(indent + KEY for _ in WHOLE[first:last]), "after()"]
    assert redacted(end.join(lines)) == end.join(wanted)
    assert redacted(end.join(lines[1:-1])) == end.join(wanted[1:-1])


@pytest.mark.parametrize("label", ["", "EC ", "ENCRYPTED ", "OPENSSH "])
def test_private_keys_of_every_kind(label: str) -> None:
    begin, end = (f"-----{side} {label}" + "PRIVATE KEY-----" for side in ("BEGIN", "END"))
    assert redacted("\n".join((begin, LINE + "Abc12/", end))) == "\n".join([KEY] * 3)


def test_a_private_key_with_headers() -> None:
    lines = [BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,0123", "", LINE, LINE[:20], END]
    assert redacted("\n".join(lines)) == "\n".join([KEY, KEY, KEY, "", KEY, KEY, KEY])


def test_a_private_key_within_quotes() -> None:
    text = f'key = """{BEGIN}\n{LINE}\n{LINE}\n{END}\n"""\nx = ("{BEGIN}\\n"\n  "{LINE}\\n"\n  "{END}\\n")'
    assert redacted(text) == (
        f'key = """{KEY}\n{KEY}\n{KEY}\n{KEY}\n"""\nx = ("{KEY}\\n"\n  "{KEY}\\n"\n  "{KEY}\\n")'
    )


@pytest.mark.parametrize("middle", ["\\n", "\\\\n", " "])
def test_a_private_key_on_one_line(middle: str) -> None:
    text = middle.join((BEGIN, LINE, LINE, END))
    assert redacted(f'"private_key": "{text}", "x": 1') == f'"private_key": "{KEY}", "x": 1'
    assert redacted(middle.join((BEGIN, LINE, LINE[:9]))) == KEY
    assert redacted(middle.join((BEGIN, "XXXX", END))) == KEY


@pytest.mark.parametrize("label", ["CERTIFICATE", "PUBLIC KEY", "PGP SIGNATURE"])
@pytest.mark.parametrize(("first", "last"), [(0, 5), (0, 4), (1, 5)])
def test_what_is_in_other_armour_stays(label: str, first: int, last: int) -> None:
    lines = [f"-----BEGIN {label}-----", LINE, LINE, LINE, f"-----END {label}-----"][first:last]
    assert redacted("\n".join(lines)) == "\n".join(lines)


@pytest.mark.parametrize(
    "lines",
    [[LINE], [HEX * 2] * 5, [(NOISE * 4)[:76]] * 5, ["A" * 64] * 5, ["ACGT" * 16] * 3, [LINE + "x"] * 4],
    ids=["one", "hashes", "picture", "rule", "letters", "width"],
)
def test_other_long_lines_stay(lines: list[str]) -> None:
    assert redacted("\n".join(lines)) == "\n".join(lines)
