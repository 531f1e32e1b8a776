"""Imports msgspec without typing_extensions, which it uses where it is installed and does without elsewhere.

That package, and `inspect` with it, is a quarter of the 60 ms in which `collate` has to start (DESIGN §7).
"""

import sys

__all__ = ["msgspec"]

_is_new = "typing_extensions" not in sys.modules
if _is_new:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # makes an import of it fail
import msgspec  # noqa: E402 - what the line above is for

if _is_new:
    del sys.modules["typing_extensions"]
