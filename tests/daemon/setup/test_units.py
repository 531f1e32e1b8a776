from pathlib import Path

from collated.setup.model import FileStep, LinkStep
from collated.setup.units import can_name, service_steps

FOLDER = Path("/home/anna/.config/systemd/user")
USUAL = Path("/home/anna/.local/bin/collated")
SHIPPED = {"collated.service": b"service", "collated.socket": b"socket"}


def test_the_units_are_installed_as_shipped_and_enabled() -> None:
    assert service_steps(FOLDER, SHIPPED, USUAL, USUAL) == [
        FileStep(f"{FOLDER}/collated.service", b"service"),
        FileStep(f"{FOLDER}/collated.socket", b"socket"),
        LinkStep(f"{FOLDER}/default.target.wants/collated.service", f"{FOLDER}/collated.service"),
        LinkStep(f"{FOLDER}/sockets.target.wants/collated.socket", f"{FOLDER}/collated.socket"),
    ]


def test_a_command_elsewhere_is_named_in_a_drop_in() -> None:
    steps = service_steps(FOLDER, SHIPPED, Path("/srv/my env/bin/collated"), USUAL)

    assert steps[2] == FileStep(
        f"{FOLDER}/collated.service.d/collate-setup.conf",
        b'# Made by `collate setup`.\n[Service]\nExecStart=\nExecStart="/srv/my env/bin/collated" run\n',
    )


def test_a_unit_cannot_name_what_it_would_read_otherwise() -> None:
    assert can_name("/home/anna/my env-1.0/bin/collated")
    for character in '%$"\\\n\x1b;é\udcff':
        assert not can_name(f"/home/{character}/collated")
