"""Where a query gets its vector: from a model that an installed package carries, or from an endpoint.

Nothing here ever downloads a model, and nothing of it is imported before a query needs it.
"""

from .embedders import Embedders, NotEmbedded, Vectors, obstacle, place

__all__ = ["Embedders", "NotEmbedded", "Vectors", "obstacle", "place"]
