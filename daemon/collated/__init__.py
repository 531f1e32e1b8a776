"""One ranked answer from every knowledge store on this machine: the daemon, its client and commands."""

__version__ = "0.1.0"
