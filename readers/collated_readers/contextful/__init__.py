"""Context stores: tables of Parquet parts behind manifests (seeds/002, formats/contextful)."""
