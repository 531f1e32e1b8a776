"""What is kept beside the answers: every store's index as arrays, in files of the cache directory."""
