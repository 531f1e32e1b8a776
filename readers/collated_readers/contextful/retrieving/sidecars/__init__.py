"""Sidecar indexes of snapshots (layout §6): they name candidates, and are never believed beyond that.

What is in them is checked where it is used; anything that does not fit is `Unusable`, and the table is then
read without it. Brings in numpy.
"""

from .cache import Sidecars
from .files import Unusable
from .probes import Probed, Question, probed

__all__ = ["Probed", "Question", "Sidecars", "Unusable", "probed"]
