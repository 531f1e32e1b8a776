"""Ranked retrieval: `corpus.retrieve`, and what a context store finds in a search over many stores."""

from .candidates import Kept
from .matches import matches
from .params import RetrieveParams
from .retrieve import Retrieved, retrieve

__all__ = ["Kept", "RetrieveParams", "Retrieved", "matches", "retrieve"]
