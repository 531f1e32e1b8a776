"""`make bench`: the ratios of RESULTS.md. `python tests/bench --help` lists the options."""

import runpy

# The helper modules are a package of their own, so that they can import each other without being installed.
runpy.run_module("harness", run_name="__main__", alter_sys=True)
