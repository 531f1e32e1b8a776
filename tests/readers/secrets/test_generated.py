"""What holds of every text: nothing is left to redact, all else stays, and it ends."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collated_readers.secrets import redacted, redacted_each

pytestmark = pytest.mark.slow

# Every secret here is made up, and put together so that no line of this file looks like one.
NOISE = "aB3dE5" + "fG7hI9jK" + "1lM2nO4pQ6" + "rS8tU0vW2xY"
LINE = ("MIIEvQ" + NOISE * 3)[:64]
BEGIN = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0." + NOISE
USER_AND_PASSWORD = "c29tZW9uZTp" + "zb21ldGhpbmc="
PASSWORD = "hunter" + "2abc"


# Texts made of pieces that mean something here, in any order, besides texts of any letters.
PIECES = st.sampled_from(
    [
        *(
            BEGIN,
            END,
            LINE,
            "\n",
            "\n",
            '"',
            "'",
            "`",
            " ",
            ": ",
            "=",
            "==",
            "=>",
            ">",
            "</",
            "\\",
            "\\n",
            "İ",
            "-----",
        ),
        *(
            "token",
            "secret",
            "password",
            "api_key",
            "authorization",
            "Bearer ",
            "Basic ",
            "://",
            "@",
            "a",
            "x1y2",
            "--",
        ),
        *(
            "<<redacted:secret>>",
            "<<redacted:",
            ">>",
            NOISE,
            JWT,
            PASSWORD,
            USER_AND_PASSWORD,
            "eyJ",
            ".",
            "(",
            "&sig=",
        ),
        *(
            "AKIA" + "Q3EGB7TZ5X2WMN4P",
            "gh" + "p_" + NOISE,
            "xox" + "b-1234567890",
            "-----BEGIN CERTIFICATE-----",
            "-",
        ),
    ]
)


TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join)


MARK = re.compile(r"<<redacted:[a-z_]+>>")


@given(TEXTS)
@example(f"://a:token={NOISE}@b")
@example("<<redacted:secret>>=" + NOISE)
def test_nothing_is_left_to_redact(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


@given(st.lists(TEXTS, max_size=5))
def test_many_at_once_are_what_each_is(texts: list[str]) -> None:
    assert list(redacted_each(texts)) == list(map(redacted, texts))


@given(TEXTS)
def test_lines_and_all_that_is_no_secret_stay(text: str) -> None:
    result = redacted(text)
    assert result.count("\n") == text.count("\n")
    pieces = [re.escape(piece) for piece in MARK.split(result)]
    assert re.fullmatch(r"[^\n]*".join(pieces), text), "what stands outside of the marks is what stood there"


@given(
    st.text(alphabet=string.ascii_letters + string.digits, min_size=20, max_size=60), st.sampled_from("'\"")
)
def test_whatever_is_quoted_behind_a_name_is_gone(value: str, quote: str) -> None:
    text = redacted(f"{{{quote}client_secret{quote}: {quote}1{value}{quote}}}")
    assert text == f"{{{quote}client_secret{quote}: {quote}<<redacted:secret>>{quote}}}"


HOSTILE: list[tuple[str, Callable[[int], str]]] = [
    *(
        (repr(unit), lambda n, unit=unit: unit * (n // len(unit)))
        for unit in ("token", "token=", "token:", "eyJ", "eyJ.")
    ),
    *(
        (repr(unit), lambda n, unit=unit: unit * (n // len(unit)))
        for unit in (
            "://",
            "://a:",
            "--",
            "-----BEGIN ",
            BEGIN,
            END,
            "A",
            "\\n",
            "+",
            "a.",
            "key ",
            "password: a ",
            "a" * 63,
        )
    ),
    ("quoted", lambda n: 'token="' + "\\" * n),
    ("words", lambda n: "token=" + "a_1." * (n // 4)),
    ("value", lambda n: 'token="' + "aB1" * (n // 3)),
    ("body", lambda n: (LINE + "\n") * (n // 65)),
    ("open", lambda n: (BEGIN + "\n" + LINE[:30] + "\n") * (n // 70)),
    ("lines", lambda n: "a\n" * (n // 2)),
    ("base64", lambda n: "A" * n + END),
]


@pytest.mark.parametrize("make", [make for _, make in HOSTILE], ids=[name for name, _ in HOSTILE])
def test_hostile_texts_end(make: Callable[[int], str]) -> None:
    # In proportion to the length this is below a second or two; squared it would be hours.
    redacted(make(500_000))
