"""What `make bench` runs: real stores, real processes, ratios of interleaved rounds (DESIGN §9)."""
