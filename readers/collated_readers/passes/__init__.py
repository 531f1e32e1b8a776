"""The contract's passes `phrase`, `all` and `any` over an index of sections (store-format: Search).

The tables are `documents`, `sections` and `sections_fts`. ContextPull stores have them; for formats that
have no full-text index they are made.
"""
