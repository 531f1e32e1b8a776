"""What a grep's pattern finds in a text, and what the path filter `in` lets through, whatever the format."""
