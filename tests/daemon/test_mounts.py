from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collated.mounts import is_below, parse_mounts

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
server:/home /home/u nfs4 rw 0 0
//server/share /mnt/with\\040space cifs rw 0 0
me@host:/ /mnt/sshfs fuse.sshfs rw 0 0
server:/e /mnt/caf\udce9 nfs rw 0 0
server:/ü /mnt/ü nfs rw 0 0
portal /run/user/1000/doc fuse.portal rw 0 0
proc /proc proc rw 0 0
damaged
"""


def test_network_file_systems_are_read_from_the_systems_table() -> None:
    assert parse_mounts(MOUNTS) == (
        "/home/u",
        "/mnt/with space",
        "/mnt/sshfs",
        "/mnt/caf\udce9",
        "/mnt/ü",
    )


@given(st.text())
def test_any_table_of_mounts_can_be_read(text: str) -> None:
    assert isinstance(parse_mounts(text), tuple)


def test_what_a_symlink_leads_to_lies_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mnt")
    mounts = (str(tmp_path / "mnt"),)
    assert is_below(str(tmp_path / "link" / "store.sqlite"), mounts)
    assert not is_below(str(tmp_path / "mnt2"), mounts)
