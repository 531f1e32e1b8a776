"""SQLite's FTS5, whatever the format: what it makes of text, and its indexes read as terms and arrays."""
