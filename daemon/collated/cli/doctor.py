"""`collate doctor`: looks at everything that can be wrong and says what to do about each thing."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from collated import __version__, protocol
from collated.client import Client, DaemonUnreachable
from collated.errors import CollatedError, ConfigError
from collated.escape import visible
from collated.places import socket_path

from .advice import advice
from .checks import Finding, Level, check_configuration, check_machine, check_socket, check_units
from .details import concerns
from .line import Line, Meaning, Span, line
from .outcome import FOUND, NOTHING
from .overview import missing_walls
from .session import Session

__all__ = ["doctor"]

_MEANINGS: dict[str, Meaning] = {"ok": "good", "note": "aside", "problem": "bad"}
_ADVICE_INDENT = 10
# A daemon that answers at all answers these at once.
_PATIENCE_S = 5.0


class Diagnosis(Struct, frozen=True):
    """All findings; `healthy` is false exactly when one of them is a problem."""

    healthy: bool
    findings: list[Finding]


def doctor(session: Session) -> int:
    """Show every finding and return 0 when none is a problem."""
    findings = list(_findings(session))
    diagnosis = Diagnosis(all(each.level != "problem" for each in findings), findings)
    if session.arguments.json:
        session.show_json(diagnosis)
    else:
        for finding in findings:
            session.show(_lines(finding))
    return FOUND if diagnosis.healthy else NOTHING


def _findings(session: Session) -> Iterator[Finding]:
    settings, findings = check_configuration(session.environ)
    yield from findings
    try:
        path = session.socket
    except ConfigError:  # said already; a daemon may run since before it was so
        path = socket_path(session.environ)
    yield from check_socket(path)
    yield from _check_daemon(path)
    yield from check_machine(settings, session.environ)
    yield check_units(session.environ)


def _check_daemon(path: Path) -> Iterator[Finding]:
    try:
        with Client(path, timeout_s=_PATIENCE_S) as client:
            yield from _judged(client.status())
            for store in client.stores().stores:
                yield from _about(store)
    except DaemonUnreachable as error:
        if error.is_absent:
            yield Finding("daemon", "note", "it does not run; any command but this one starts it")
        else:
            yield Finding("daemon", "problem", str(error), "end its process, then ask again")
    except CollatedError as error:
        yield Finding("daemon", "problem", str(error), "look into its log")


def _judged(status: protocol.StatusResult) -> Iterator[Finding]:
    """Return what the daemon says of itself."""
    if status.version == __version__:
        yield Finding("daemon", "ok", f"process {status.pid}, version {status.version}")
    else:
        message = f"it is version {status.version}, this command {__version__}"
        yield Finding(
            "daemon", "problem", message, f"stop it (kill {status.pid}); the next command starts this version"
        )
    if status.config_error:
        yield Finding(
            "daemon", "problem", status.config_error, "mend the configuration, then `collate reload`"
        )
    for key in ("error", "state_error"):
        if status.watch.get(key):
            advice_text = "what changes is still seen, at the next rescan (discovery.rescan_s)"
            yield Finding("watch", "problem", str(status.watch[key]), advice_text if key == "error" else None)
    if status.sidecars.get("error"):
        yield Finding(
            "sidecars",
            "problem",
            str(status.sidecars["error"]),
            "answers are right but slower meanwhile; make room, or `collate cache --clear`",
        )
    for wall in missing_walls(status.engines):
        message = f"the workers that read context stores run without {wall}, which this system does not have"
        yield Finding("engines", "note", message, "statements are judged all the same before they run")
    yield Finding("watch", "ok", f"{status.watch.get('directories', 0)} directories")


def _about(store: protocol.StoreStatus) -> Iterator[Finding]:
    """Return what to do about a store that is not open or needs attention."""
    subject = f"store {store.name}"
    if store.state != "open":  # one that will be soon is no problem
        reason = store.reason or protocol.Reason("", f"it is {store.state}")
        level: Level = "problem" if store.state in ("refused", "unreadable") else "note"
        yield Finding(subject, level, f"{store.path}: {reason.message}", advice(reason.code))
    for concern in concerns(store):
        level = "problem" if concern.is_problem else "note"
        yield Finding(subject, level, f"{store.path}: {concern.message}", concern.advice)


def _lines(finding: Finding) -> Iterator[Line]:
    yield line(
        Span(f"{finding.level:{_ADVICE_INDENT}}", _MEANINGS[finding.level]),
        Span(visible(finding.subject), "heading"),
        f": {visible(finding.message)}",
    )
    if finding.advice and finding.level != "ok":
        yield line(visible(finding.advice), indent=_ADVICE_INDENT)
