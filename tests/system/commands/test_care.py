"""The doctor, the schema and completion."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from collated import __version__

if TYPE_CHECKING:
    from tests.system.commands.conftest import Collate
    from tests.system.conftest import Daemon

TIMEOUT_S = 30


def findings(ran: Any, subject: str) -> list[dict[str, Any]]:
    return [finding for finding in ran.json["findings"] if finding["subject"] == subject]


def test_the_doctor_finds_nothing_wrong_with_a_fresh_start(shared: Daemon, collate: Collate) -> None:
    ran = collate(shared, "doctor", "--json")
    assert (ran.code, ran.json["healthy"]) == (0, True)
    assert {each["level"] for each in ran.json["findings"]} <= {"ok", "note"}
    assert findings(ran, "daemon")[0]["message"] == f"process {shared.pid}, version {__version__}"
    assert findings(ran, "SQLite")[0]["message"].endswith("with FTS5")
    assert collate(shared, "doctor").out.startswith("ok        configuration: ")


def test_the_doctor_does_not_start_a_daemon(home: Daemon, collate: Collate) -> None:
    ran = collate(home, "doctor", "--json")
    assert ran.code == 0
    assert findings(ran, "daemon")[0]["level"] == "note"
    assert not home.socket.parent.exists()


def test_the_doctor_says_what_to_do_about_each_problem(
    home: Daemon, tmp_path: Path, collate: Collate
) -> None:
    (home.stores / "novel.sqlite").write_text("Once upon a time")
    (home.stores / "gone.sqlite").symlink_to("/nonexistent")
    assert collate(home, "stores").code == 0
    home.configure(f"[[watch]]\npath = '{tmp_path / 'nowhere'}'\n")
    ran = collate(home, "doctor", "--json")
    assert (ran.code, ran.json["healthy"]) == (1, False)
    assert "the file does not begin like a SQLite database" in findings(ran, "store novel")[0]["message"]
    assert "collate remove" in findings(ran, "store gone")[0]["advice"]
    assert findings(ran, "watched directory")[0]["level"] == "problem"
    home.configure("[search]\nnonsense = 1\n")
    text = collate(home, "doctor")
    assert text.code == 1
    assert f"problem   configuration: {home.config}: " in text.out
    assert "daemon: process " in text.out


def test_the_doctor_says_that_sidecars_cannot_be_kept(home: Daemon, collate: Collate) -> None:
    in_the_way = Path(home.environ["XDG_CACHE_HOME"]) / "collated" / "sidecars"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("a file where a directory should be")
    assert collate(home, "stores").code == 1
    home.wait_for(lambda: home.ask("status")["sidecars"]["error"], what="the keeper to fail")

    ran = collate(home, "doctor", "--json")

    assert findings(ran, "sidecars")[0]["level"] == "problem"
    assert str(in_the_way) in findings(ran, "sidecars")[0]["message"]
    assert collate(home, "search", "anything").code == 1  # and answers all the same


def test_the_doctor_looks_at_the_sockets_directory(home: Daemon, collate: Collate) -> None:
    home.socket.parent.mkdir(mode=0o700)
    home.socket.write_text("not a socket")
    assert "is no socket" in findings(collate(home, "doctor", "--json"), "socket")[0]["message"]
    home.socket.parent.chmod(0o777)
    assert (
        findings(collate(home, "doctor", "--json"), "socket")[0]["advice"]
        == f"chmod 700 {home.socket.parent}"
    )
    home.socket.unlink()
    home.socket.parent.rmdir()


def test_the_schema_is_printed_without_a_daemon(home: Daemon, collate: Collate) -> None:
    from collated.protocol import schema

    ran = collate(home, "schema")
    assert (ran.code, ran.json) == (0, json.loads(json.dumps(schema())))
    assert not home.socket.parent.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_is_printed_for_each_shell(home: Daemon, shell: str, collate: Collate) -> None:
    ran = collate(home, "completion", shell)
    assert ran.code == 0
    for word in ("search", "neighbours", "regex", "deadline-ms"):
        assert word in ran.out


def test_bash_takes_the_completion_and_completes(home: Daemon, collate: Collate) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    script = collate(home, "completion", "bash").out
    ask = 'COMP_WORDS=(collate sea); COMP_CWORD=1; _shtab_collate; echo "${COMPREPLY[@]}"'
    ran = subprocess.run(
        [bash, "-c", f"{script}\n{ask}"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    assert ran.stdout.split() == ["search"]
