"""Part `build`: time, memory and disk that it takes to index all stores."""

from .bench import Bench
from .report import Report, mb

__all__ = ["run"]


def run(bench: Bench, report: Report) -> None:
    """Show what the daemons of this run needed when they first saw their stores."""
    rows: list[tuple[str, ...]] = []
    for count in bench.counts:
        bench.asker(count)
        built = bench.built[count]
        ready = "none" if built.ready is None else f"{built.ready:,} in {built.segments}"
        rows.append(
            (
                f"{count:,}",
                f"{built.open_s:.2f}",
                f"{built.ready_s:.2f}",
                f"{built.settled_s:.2f}",
                ready,
                f"{built.cpu_s:.1f}",
                mb(built.peak_bytes),
                mb(built.daemon_peak_bytes),
                f"{built.kept_bytes / count / 1e3:.0f}",
                f"{built.mapped_bytes / count / 1e3:.0f}",
            )
        )
    report.section(
        "Building the sidecars",
        "From the cold start of a daemon (no state file, nothing kept) until all stores answer from arrays, "
        "and until they are combined into few. The builder is a process of its own, at low priority; peaks "
        "are of resident memory.",
    )
    report.table(
        (
            "stores",
            "all open, s",
            "all ready, s",
            "combined, s",
            "ready in segments",
            "builder's CPU, s",
            "builder's peak, MB",
            "daemon's peak, MB",
            "kept on disk, KB a store",
            "mapped without a name, KB a store",
        ),
        rows,
    )
