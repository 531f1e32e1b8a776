from pathlib import Path

from collated.setup.manager import find_manager, shipped_units, units_folder
from collated.setup.units import UNITS


def test_the_units_are_found_wherever_the_package_lies() -> None:
    shipped = shipped_units()

    assert shipped is not None
    assert set(shipped) == set(UNITS)
    assert b"\nListenStream=" in shipped["collated.socket"]
    assert b"\nExecStart=%h/.local/bin/collated run\n" in shipped["collated.service"]


def test_no_manager_runs_where_its_socket_is_not(tmp_path: Path) -> None:
    assert find_manager({}) is None
    assert find_manager({"XDG_RUNTIME_DIR": str(tmp_path)}) is None


def test_units_lie_where_the_manager_looks() -> None:
    home = Path("/home/anna")

    assert units_folder({}, home) == Path("/home/anna/.config/systemd/user")
    assert units_folder({"XDG_CONFIG_HOME": "/srv"}, home) == Path("/srv/systemd/user")
    assert units_folder({"XDG_CONFIG_HOME": "relative"}, home) == Path("/home/anna/.config/systemd/user")
