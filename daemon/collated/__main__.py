"""`python -m collated` is the daemon's own command."""

from .cli.daemon import main

if __name__ == "__main__":
    raise SystemExit(main())
