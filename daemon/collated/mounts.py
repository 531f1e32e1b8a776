"""Which file systems are another machine's: they report no changes, and may hang for minutes."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["is_below", "network_mounts", "parse_mounts"]

_ESCAPE = re.compile(r"\\([0-7]{3})")  # of the kernel: white space, `\` and `#`
_NETWORK = re.compile(r"(nfs|cifs|smb|9p|afs|ceph|gluster|lustre|fuse\.(sshfs|rclone|s3fs|gcsfuse))")


def network_mounts() -> tuple[str, ...] | None:
    """Return the mount points of network file systems of this moment, None where nobody tells."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # not Linux
        return None
    return parse_mounts(mounts)


def parse_mounts(mounts: str) -> tuple[str, ...]:
    """Return the mount points of network file systems in the text of `/proc/self/mounts`. Pure."""
    rows = [line.split(" ") for line in mounts.split("\n") if line.count(" ") > 1]
    return tuple(_ESCAPE.sub(_unescape, row[1]) for row in rows if _NETWORK.match(row[2]))


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))


def is_below(path: str, mounts: Sequence[str]) -> bool:
    """Tell whether *path* lies in one of *mounts*."""
    real = os.path.realpath(path)
    return any(real == mount or real.startswith(mount.rstrip("/") + "/") for mount in mounts)
