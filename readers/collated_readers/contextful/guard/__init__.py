"""The guard: which statements of a caller may run, decided on the engine's own tree of them.

Pure: it is given the text and the tree that `json_serialize_sql` makes of it, and runs nothing. The
locked session (session.py), the sandboxed process and the file system are the walls behind it.
"""

from .judging import Judged, decode_tree, judge, judge_template
from .parameters import RESERVED, TYPES, arguments_to_bind
from .text import MAX_TEXT_BYTES, check_text

__all__ = [
    "MAX_TEXT_BYTES",
    "RESERVED",
    "TYPES",
    "Judged",
    "arguments_to_bind",
    "check_text",
    "decode_tree",
    "judge",
    "judge_template",
]
