"""What is installed, what it costs to import, and what must not stand in the repository."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import collated
import collated_readers

ROOT = Path(__file__).parents[2]
IS_WHEEL = os.environ.get("COLLATE_TESTED") == "wheel"
only_wheel = pytest.mark.skipif(not IS_WHEEL, reason="`make test` runs this against the built wheel")

# In pieces, so that this file does not hold what it looks for.
UNWANTED = [
    "py" + "pi.org",
    "python" + "hosted.org",
    "npm" + "js.",
    "debian" + ".org",
    "node" + "js.org",
    "crates" + ".io",
    "golang" + ".org",
    "/wo" + "rk/",
    "tmp/" + "venv",
    "/ro" + "ot/",
    "/opt/" + "py",
    ".py" + "env",
]
HEAVY = [
    "aiosqlite",
    "anyio",
    "asyncio",
    "numpy",
    "regex",
    "rich",
    "sqlite3",
    "structlog",
    "uvloop",
    "watchfiles",
]


def run_python(program: str, *args: str, cwd: Path) -> str:
    """Run *program* in a fresh Python that sees the packages under test, and return what it printed."""
    places = [str(Path(package.__path__[0]).parent) for package in (collated, collated_readers)]
    ran = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


# --------------------------------------------------------------------------- the wheel


@only_wheel
def test_the_wheel_is_what_is_tested() -> None:
    for package in (collated, collated_readers):
        assert Path(package.__path__[0]).is_relative_to(sys.prefix)


@only_wheel
def test_the_wheel_installs_the_two_packages_the_two_commands_and_three_shared_files() -> None:
    files = metadata.files("collated") or []
    paths = {Path(os.path.normpath(file.locate())).relative_to(sys.prefix) for file in files}
    site = Path(collated.__path__[0]).parent.relative_to(sys.prefix)

    tops = {path.relative_to(site).parts[0] for path in paths if path.is_relative_to(site)}
    others = {str(path) for path in paths if not path.is_relative_to(site)}

    assert tops == {"collated", "collated_readers", f"collated-{metadata.version('collated')}.dist-info"}
    assert others == {
        "bin/collate",
        "bin/collated",
        "share/collated/collated.toml",
        "share/systemd/user/collated.service",
        "share/systemd/user/collated.socket",
    }
    assert {site / package / "py.typed" for package in ("collated", "collated_readers")} <= paths


@only_wheel
def test_the_wheel_holds_every_module_of_the_checkout() -> None:
    for package, folder in ((collated, "daemon"), (collated_readers, "readers")):
        below = ROOT / folder / package.__name__
        modules = {path.relative_to(below) for path in below.rglob("*.py")}

        assert modules == {
            path.relative_to(package.__path__[0]) for path in Path(package.__path__[0]).rglob("*.py")
        }


@pytest.mark.parametrize("name", ["config", "daemon", "editors", "readers", "systemd", "tests"])
def test_no_folder_of_the_checkout_can_be_imported(tmp_path: Path, name: str) -> None:
    program = "import sys, importlib.util as u; s = u.find_spec(sys.argv[1]); print(s and s.origin or '')"

    origin = run_python(program, name, cwd=tmp_path).strip()

    assert not origin or not Path(origin).is_relative_to(ROOT) or Path(origin).is_relative_to(sys.prefix)


# --------------------------------------------------------------------------- imports and commands


@pytest.mark.parametrize("module", ["collated.cli", "collated.client"])
def test_what_a_command_imports_is_little(tmp_path: Path, module: str) -> None:
    program = "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sys.modules)"

    loaded = run_python(program, module, cwd=tmp_path).split()

    assert set(loaded) & set(HEAVY) == set()


def test_the_readers_know_nothing_of_the_daemon(tmp_path: Path) -> None:
    program = "import sys, collated_readers; print({'collated', 'asyncio', 'anyio'} & set(sys.modules))"

    assert run_python(program, cwd=tmp_path) == "set()\n"


@pytest.mark.parametrize("module", ["collated.cli", "collated.cli.daemon"])
def test_each_command_tells_its_version(tmp_path: Path, module: str) -> None:
    program = f"from {module} import main; raise SystemExit(main())"

    assert collated.__version__ in run_python(program, "--version", cwd=tmp_path)


# --------------------------------------------------------------------------- the repository


def tracked() -> list[Path]:
    """Return the files that git has; without git or a repository the test is skipped."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    ran = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        pytest.skip(f"not a git checkout: {ran.stderr.strip()}")
    return [ROOT / name for name in ran.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_registry_a_download_host_or_a_machines_path() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in tracked()
        for word in UNWANTED
        if word.encode() in path.read_bytes()
    ]

    assert found == []


def test_no_lock_file_with_addresses_is_tracked() -> None:
    assert [
        path.name for path in tracked() if path.name in {"uv.lock", "poetry.lock", "package-lock.json"}
    ] == []


def pins() -> dict[str, str]:
    """Return name -> version of constraints.txt, names normalised; anything but a plain pin fails."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith("#"):
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9A-Za-z.]+)", line)
            assert pin, f"not a plain pin: {line}"
            found[normal(pin[1])] = pin[2]
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts: list[str] = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        texts += extra
    pinned = pins()

    for requirement in map(Requirement, texts):
        assert requirement.specifier.contains(pinned[normal(requirement.name)]), requirement
