"""Processes that run what may not run in the daemon: engines whose statements cannot be bounded otherwise."""
