"""What is sent holds no secrets, and everything else that was there."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collated_readers.secrets import redacted, redacted_each

# Every secret here is made up, and put together so that no line of this file looks like one.
NOISE = "aB3dE5" + "fG7hI9jK" + "1lM2nO4pQ6" + "rS8tU0vW2xY"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
LINE = ("MIIEvQ" + NOISE * 3)[:64]
BEGIN = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"
KEY = "<<redacted:private_key>>"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0." + NOISE
USER_AND_PASSWORD = base64.b64encode(b"someone:something").decode()

# what is written, with `{}` for the secret; the secret; its kind
FORMS = [
    ("key id {} here", "AKIA" + "Q3EGB7TZ5X2WMN4P", "aws_access_key"),
    ("({})", "ASIA" + "Q3EGB7TZ5X2WMN4P", "aws_access_key"),
    ("aws_secret_access_key = {}", "wJalrX" + "UtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret"),
    ("AWS_SECRET_ACCESS_KEY={}", NOISE + "/+abc", "secret"),
    ("cookie: {};", JWT, "jwt"),
    ('"{}"', JWT.rpartition(".")[0], "jwt"),
    *(("url = {}", prefix + NOISE, "github_token") for prefix in ("gh" + kind + "_" for kind in "opsur")),
    ("{}", "github" + "_pat_" + NOISE + "_" + NOISE, "github_token"),
    ("{}\n", "glpat" + "-" + NOISE[:20], "gitlab_token"),
    ("'{}'", "xoxb" + "-123456789012-" + NOISE, "slack_token"),
    ("'{}'", "xapp" + "-1-A0123-" + NOISE, "slack_token"),
    ("https://hooks.slack." + "com/services/{}", "T0000/B0000/" + NOISE, "slack_webhook"),
    ("https://discord." + "com/api/webhooks/123456789/{}", NOISE, "discord_webhook"),
    ("?key={}&x=1", "AIza" + NOISE, "google_api_key"),
    ("{}", "ya29" + "." + NOISE, "google_token"),
    *(("x {} y", prefix + "live_" + NOISE, "stripe_key") for prefix in ("sk_", "rk_")),
    ("{}", "npm" + "_" + NOISE, "npm_token"),
    ("{}", "pypi" + "-AgEIcHlwaS5vcmc" + NOISE, "pypi_token"),
    ("{}", "sk-" + "proj-" + NOISE, "openai_key"),
    ("{}", "sk-" + "ant-api03-" + NOISE, "anthropic_key"),
    ("{}", "hf_" + NOISE, "huggingface_token"),
    ("{}", "SG." + NOISE + "." + NOISE, "sendgrid_key"),
    ("{}", "dop_v1_" + HEX * 2, "api_token"),
    ("bot{}/send", "123456789" + ":AA" + NOISE, "telegram_token"),
    ("AccountName=x;AccountKey={};EndpointSuffix=y", NOISE * 2 + "==", "azure_key"),
    ("https://x/y?sv=1&sig={}&se=2", NOISE + "%3D", "azure_key"),
    ("Authorization: Bearer {}", NOISE, "authorization"),
    ("curl -H 'authorization: bearer {}'", "mF_9." + "B5f-4.1JqM", "authorization"),
    ("Authorization: Basic {}", USER_AND_PASSWORD, "authorization"),
    ("Authorization: Token {}", HEX, "authorization"),
    ("postgresql://someone:{}@db.local:5432/app", "hunter" + "2", "password"),
    ("redis://:{}@cache/0", "p@ss" + "phrase", "password"),
    ("deploy --password {} now", "hunter" + "2hunter2", "secret"),
    ("deploy --api-key '{}'", NOISE, "secret"),
]

PASSWORD = "hunter" + "2abc"
NAMED = [
    *(
        (f"{name} = '{{}}'", NOISE)
        for name in ("api_key", "apiKey", "api-key", "secret", "token", "access_token")
    ),
    *(
        (f"{name}={{}}", NOISE)
        for name in ("client_secret", "api_token", "auth_token", "private_key", "x.token")
    ),
    *(
        (f'{{{{"{name}": "{{}}"}}}}', NOISE)
        for name in ("token", "clientSecret", "access-token", "signing_key")
    ),
    *((f"{name}: {{}}", NOISE) for name in ("secret", "  refresh_token", "- API_KEY", "credentials")),
    *(
        (f"{name}={{}}\n", PASSWORD)
        for name in ("DB_PASSWORD", "export PGPASSWORD", "SMTP_PASS", "MYSQL_PWD")
    ),
    *((f"{name} => '{{}}'", PASSWORD) for name in ("'password'", ":passwd", "passphrase", "'pass'")),
    ('"password": "{}"', "hunter" + "2"),
    ("password: {}", "hunter2" + "hunter2"),
    ("Server=x;Password={};Timeout=3", "S3cret" + "!pass"),
    ('password: str = "{}"', PASSWORD),
    ("const token: string = `{}`", NOISE),
    ('if token == "{}":', NOISE),
    ("os.environ['API_KEY'] = '{}'", NOISE),
    (r'"{{\"password\": \"{}\"}}"', PASSWORD),
    ("<password>{}</password>", PASSWORD),
    ('<add key="ApiToken" value="{}"/>', NOISE),
    ("password = b'{}'", PASSWORD),
    ('token = """{}"""', NOISE),
    ("https://x/y?access_token={}&z=1", NOISE),
    ("//registry/:_authToken={}", NOISE),
    ('SECRET_KEY = "{}"', "django-insecure-" + "(x)$y"),
    ('secretKey: "{}"', "correct-horse" + "-battery"),
    ('"token": "{}"', NOISE * 100),
    ("token={}", NOISE * 100),
    ("İ token={}", NOISE),
    ("password={}", "1234" + "5678"),
    ("secret={}", "abcdefgh" + "ijklmnop"),
]

STAY = [
    *("secret = get_secret_from_somewhere_long", "token = self.tokenizer.next_token", "token = tokens[0]"),
    *(
        "password: str = Field(...)",
        "passwd: Optional[str] = None",
        "password: string;",
        "password=password1",
    ),
    *(
        "${PASSWORD}",
        'os.environ["API_KEY"]',
        "token = ${API_TOKEN_FROM_12345}",
        'token = f"{prefix}{token_12345}"',
    ),
    *(
        '"token": "<your-token-1234567>"',
        'api_key="YOUR_API_KEY_HERE"',
        "password: changeme",
        "secret: '{{ s.x1 }}'",
    ),
    *(
        'token = "xxxxxxxxxxxxxxxxxxxx"',
        'password="********"',
        'token: "sk-1234..."',
        "password = %(db_password1)s",
    ),
    *("token = base64.b64decode(value2)", "secret = secrets.token_hex(32)", "token=Token2Identifier"),
    *(
        '"type": "password", "name": "password"',
        '"password": "auth.errors.passwordRequired"',
        '"token": "identifier"',
    ),
    *(
        'password = self.cleaned_data.get("password1")',
        "if token.type == TokenType.LONG_IDENTIFIER:",
        "token_count = 5",
    ),
    *('"password": "Use at least 8 characters"', "max_token: 1234567890123456789"[:12], "Token::Identifier"),
    *("the token: a string of letters", "password, token, secret", "token_count = 1234567890123456789"),
    *(
        f"sha256: {HEX}{HEX}",
        f"commit {HEX}",
        "id = 550e8400-e29b-41d4-a716-446655440000",
        f'key = "{NOISE}"',
    ),
    *(
        f"data:image/png;base64,{NOISE * 9}",
        f'"integrity": "sha512-{NOISE * 2}=="',
        "AKIA",
        "AKIAshort",
        "eyJust.words",
    ),
    *(
        "Bearer of bad news indeed",
        "Bearer {token}",
        "Bearer authentication_scheme",
        "Basic understanding",
        "basic_auth",
    ),
    *(
        "http://host:80/path@x",
        "https://x.y/a:b",
        'f"postgres://{user}:{password}@{host}"',
        "db://user:password@host",
    ),
    *(
        "db://u:$DB_PASSWORD@h",
        "db://u:<password>@h",
        "git@github.com:a/b",
        "ghp_short",
        "npm_config_registry",
    ),
    *(
        "sk-loading-indicator-large",
        "pypi-publish",
        "glpat-x",
        "--password",
        "--token=$TOKEN",
        "// --- token ---",
    ),
    *(
        'token_url="https://example.com/oauth2/token"',
        'private_key: "/etc/ssl/private/server.key"',
        "bypass = 'v1.2.3x'",
    ),
    *(
        "author: 'abcdef1234567'",
        "monkey = 'abcdef1234567890'",
        "keyboard: 'abcdef1234567890'",
        "passenger='a1b2c3d4'",
    ),
    *("İ" * 9 + " token = tokens[0]", "", "\n\n", "token:", "token=", 'token="', "password: '"),
    "in one pass: `tag_field='method_of_it'`",
    "'auth0': 'types-auth0-python'",
    f'if "{BEGIN}" in text:\n    break',
    f'pem = f"{BEGIN}\\n{{body}}\\n{END}"',
]


@pytest.mark.parametrize(("written", "secret", "kind"), FORMS)
def test_a_secret_that_is_known_by_its_form(written: str, secret: str, kind: str) -> None:
    assert redacted(written.format(secret)) == written.format(f"<<redacted:{kind}>>")


@pytest.mark.parametrize(("written", "secret"), NAMED)
def test_a_secret_that_is_known_by_its_name(written: str, secret: str) -> None:
    assert redacted(written.format(secret)) == written.format("<<redacted:secret>>")


@pytest.mark.parametrize("text", STAY)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_secrets_among_each_other_and_what_is_around_them() -> None:
    text = (
        f"token={NOISE}\r\n\tx = 1  # password: {PASSWORD}\u2028\npostgres://a:{PASSWORD}@b?token={NOISE}\n"
    )
    assert redacted(text) == (
        "token=<<redacted:secret>>\r\n\tx = 1  # password: <<redacted:secret>>\u2028\n"
        "postgres://a:<<redacted:password>>@b?token=<<redacted:secret>>\n"
    )


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


def test_the_sources_of_this_project_hold_no_secret() -> None:
    root = Path(__file__).parents[2]
    for path in sorted(root.glob("[dr]*/collated*/**/*.py")):
        text = path.read_text(encoding="utf-8")
        assert redacted(text) == text, path
