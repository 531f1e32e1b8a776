import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from collated.errors import ConfigError
from collated.places import cache_dir, config_file, load_settings, socket_path, state_dir, stores_dir
from collated.settings import Search, Settings

PLACES: dict[str, tuple[Callable[[Mapping[str, str]], Path], str, str]] = {
    "XDG_CONFIG_HOME": (config_file, "collated/config.toml", ".config/collated/config.toml"),
    "XDG_STATE_HOME": (state_dir, "collated", ".local/state/collated"),
    "XDG_CACHE_HOME": (cache_dir, "collated", ".cache/collated"),
    "XDG_DATA_HOME": (stores_dir, "collated/stores", ".local/share/collated/stores"),
}

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no XDG directories")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any XDG variable, in the process's own environment too."""
    for variable in (*PLACES, "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("variable", PLACES)
def test_each_place_follows_its_xdg_variable(variable: str) -> None:
    place, below, _ = PLACES[variable]

    assert place({variable: "/elsewhere"}) == Path("/elsewhere") / below


@needs_linux
@pytest.mark.parametrize("variable", PLACES)
@pytest.mark.parametrize("value", [None, "", "relative/dir", "."])
def test_a_relative_or_empty_xdg_variable_is_ignored(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None
) -> None:
    place, _, default = PLACES[variable]
    if value is not None:
        monkeypatch.setenv(variable, value)

    assert place(os.environ) == home / default


# --------------------------------------------------------------------------- the socket


def test_the_socket_lies_in_the_runtime_directory() -> None:
    assert socket_path({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/collated/collated.sock")


def test_the_configured_socket_wins_over_the_default_and_the_variable_over_both(home: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/user/7"}

    assert socket_path(environ, "~/c.sock") == home / "c.sock"
    assert socket_path({**environ, "COLLATE_SOCKET": "/v.sock"}, "~/c.sock") == Path("/v.sock")


@needs_linux
@pytest.mark.parametrize("value", [None, "", "relative"])
def test_without_a_usable_runtime_directory_the_socket_still_has_an_absolute_place(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is not None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)

    path = socket_path(os.environ)

    assert path.is_absolute()
    assert path.name == "collated.sock"
    assert str(os.getuid()) in str(path)


@needs_linux
def test_a_socket_path_is_refused_just_where_the_system_refuses_it(tmp_path: Path) -> None:
    base = f"/{'d' * 50}/"
    longest = base + "s" * (107 - len(base))

    assert socket_path({"COLLATE_SOCKET": longest}) == Path(longest)
    with pytest.raises(ConfigError, match="COLLATE_SOCKET"):
        socket_path({"COLLATE_SOCKET": longest + "s"})


@needs_linux
def test_the_length_of_a_socket_path_is_counted_in_bytes() -> None:
    with pytest.raises(ConfigError, match="107 bytes"):
        socket_path({"COLLATE_SOCKET": "/" + "é" * 60})


# --------------------------------------------------------------------------- the configuration file


def test_a_default_file_that_is_absent_is_an_empty_one(tmp_path: Path) -> None:
    assert load_settings(None, {"XDG_CONFIG_HOME": str(tmp_path)}) == Settings()


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path, by_flag: bool) -> None:
    absent = tmp_path / "absent.toml"

    with pytest.raises(ConfigError, match=r"absent\.toml"):
        if by_flag:
            load_settings(absent, {})
        else:
            load_settings(None, {"COLLATE_CONFIG": str(absent)})


def test_a_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[search]\ndeadline_s = 3\nmax_open_stores = 7")

    settings = load_settings(file, {"COLLATE_SEARCH__DEADLINE_S": "4"})

    assert settings.search == Search(deadline_s=4.0, max_open_stores=7)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[server]\nx = '\x80'"])
def test_a_file_that_is_not_utf8_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "c.toml"
    file.write_bytes(content)

    with pytest.raises(ConfigError, match=r"c\.toml cannot be read"):
        load_settings(file, {})


def test_a_directory_instead_of_a_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path, {})


def test_a_fifo_instead_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(ConfigError, match="a FIFO, not a file"):
        load_settings(tmp_path / "config.toml", {})


def test_platformdirs_is_not_imported_where_the_environment_says_it_all() -> None:
    program = (
        "import sys, collated.places as p; p.socket_path({'XDG_RUNTIME_DIR': '/r'}); "
        "p.config_file({'XDG_CONFIG_HOME': '/c'}); print('platformdirs' in sys.modules)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, env=environ, check=True
    )

    assert ran.stdout == "False\n"
