"""A process that holds the reference with all stores of a folder open: `python -m harness.holding FOLDER`.

Each line of its standard input is asked of every store; a line with the number of hits answers it.
"""

import resource
import sys
from pathlib import Path

from .reference import Reference


def main() -> None:
    """Open, ask once, tell, wait."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    reference = Reference(sorted(Path(sys.argv[1]).glob("*.sqlite")))
    for text in sys.stdin:
        print(reference.ask_all(text.rstrip("\n")), flush=True)


if __name__ == "__main__":
    main()
