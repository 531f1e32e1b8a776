"""What is sent holds no secrets, and everything else that was there."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from collated_readers.secrets import redacted

# Every secret here is made up, and put together so that no line of this file looks like one.
NOISE = "aB3dE5" + "fG7hI9jK" + "1lM2nO4pQ6" + "rS8tU0vW2xY"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
BEGIN = "-----BEGIN RSA " + "PRIVATE KEY-----"
END = "-----END RSA " + "PRIVATE KEY-----"
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


def test_the_sources_of_this_project_hold_no_secret() -> None:
    root = Path(__file__).parents[3]
    sources = sorted(root.glob("[dr]*/collated*/**/*.py"))
    assert sources or not (root / "readers").exists(), "nothing is tested"
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert redacted(text) == text, path
