"""What `collate setup` does: finds stores, plans what to write, writes it, and can take it back.

`planning`, `toml` and `units` are pure; `finding` looks at the disk, `applying` and `manager` change things.
"""
