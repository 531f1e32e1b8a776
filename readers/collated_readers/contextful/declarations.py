"""What a project declares of its tables: `contextful.toml` and the files in `pipelines/` (layout §3)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from collated_readers.codes import RequestError, StoreError

from .blocks import declared_of, is_restricting
from .folders import Folder, Unusable
from .model import Declared, Template
from .names import folded_name, is_table_name
from .parsing import decoded, is_list, is_object
from .templates import templates_of

__all__ = ["DECLARATION", "PIPELINES", "SUFFIXES", "Declarations", "load_declarations"]

DECLARATION = "contextful.toml"
PIPELINES = "pipelines"
SUFFIXES = (".toml", ".json")
_LARGEST_BYTES = 1024 * 1024
_MOST_FILES = 1_000

_Document = Mapping[str, Any]
_Named = tuple[str, Mapping[str, Any]]


class Declarations(Struct, frozen=True):
    """All that a project declares; a table that is not in *tables* is not declared."""

    tables: Mapping[str, Declared] = {}
    templates: tuple[Template, ...] = ()
    withheld_templates: Mapping[str, RequestError] = {}
    numeric_identifiers: Mapping[str, Any] = {}
    badges: Mapping[str, Any] = {}
    is_incognito: bool = False


def load_declarations(directory: str) -> Declarations:
    """Return what the project in *directory* declares; nothing where no declaration lies there.

    Raises:
        StoreError: `declaration_unreadable`: who may read what is then not known of any table.
        OSError: what the system says.
    """
    with Folder.at(directory) as folder:
        documents = dict(_documents(folder))
    try:
        return _declarations(documents)
    except RecursionError as error:
        raise _unreadable(DECLARATION, "it is nested too deeply") from error


def _documents(folder: Folder) -> Iterator[tuple[str, _Document]]:
    """Yield the declaration and the pipelines' files by name, in the order in which they are taken."""
    main = _document(folder, DECLARATION, DECLARATION)
    if main is not None:
        yield DECLARATION, main
    try:
        with folder.folder(PIPELINES) as pipelines:
            if pipelines is None:
                return
            names = [one.name for one in pipelines.entries() if not one.is_folder and _is_pipeline(one.name)]
            if len(names) > _MOST_FILES:
                raise _unreadable(PIPELINES, f"it holds more than {_MOST_FILES} files")
            for name in names:
                document = _document(pipelines, name, f"{PIPELINES}/{name}")
                if document is not None:
                    yield f"{PIPELINES}/{name}", document
    except Unusable as error:
        raise _unreadable(PIPELINES, str(error)) from error


def _is_pipeline(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _document(folder: Folder, name: str, shown: str) -> _Document | None:
    try:
        data = folder.read(name, _LARGEST_BYTES)
        if data is None:
            return None
        return decoded(data, dict[str, Any]) if name.endswith(".json") else tomllib.loads(data.decode())
    except (ValueError, RecursionError, Unusable) as error:  # TOML's own is a ValueError, and so is UTF-8's
        raise _unreadable(shown, f"{error!s:.200}") from error


def _unreadable(file: str, what: str) -> StoreError:
    return StoreError("declaration_unreadable", f"{file:.200} cannot be used: {what}")


# ---------------------------------------------------------------------------- their meaning


def _declarations(documents: Mapping[str, _Document]) -> Declarations:
    main = documents.get(DECLARATION, {})
    templates, withheld = templates_of(_listed(main, "query_templates"))
    lexicon = main.get("lexicon")
    return Declarations(
        tables=_tables(documents),
        templates=templates,
        withheld_templates=withheld,
        numeric_identifiers=_vocabulary(lexicon, "numeric_identifiers"),
        badges=_vocabulary(lexicon, "badges"),
        is_incognito=_is_incognito(main),
    )


def _tables(documents: Mapping[str, _Document]) -> dict[str, Declared]:
    blocks = [named for file, document in documents.items() for named in _blocks(file, document)]
    times = Counter(name for name, _ in blocks)
    tables = {name: declared_of(name, block) for name, block in blocks}
    for name, count in times.items():
        if count > 1:
            tables[name] = Declared(name, withheld="it is declared twice")
    for name in _restricted_elsewhere(documents):
        tables[name] = Declared(name, withheld="it is restricted in a way that is not evaluated here")
    return tables


def _blocks(file: str, document: _Document) -> Iterator[_Named]:
    """Yield the tables that a file declares, by the names that they have in the store."""
    pipeline = document.get("pipeline")
    if pipeline is None and "id" in document and file != DECLARATION:
        pipeline = [document]  # a file may be one specification
    if is_list(pipeline):
        for specification in pipeline:
            yield from _specified(file, specification)
    elif is_object(pipeline) and not {"id", "source"} & pipeline.keys():
        for block in _table_list(file, pipeline):
            yield _checked(file, block["name"]), block
    elif pipeline is not None:
        raise _unreadable(file, "`pipeline` is neither tables of the store nor specifications")


def _specified(file: str, specification: Any) -> Iterator[_Named]:
    pipeline = specification.get("id") if is_object(specification) else None
    if not isinstance(pipeline, str):
        raise _unreadable(file, "a pipeline has no id")
    for block in _table_list(file, specification):
        yield _checked(file, folded_name(pipeline, block["name"])), block


def _table_list(file: str, holder: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    entries = holder.get("tables", [])
    if not is_list(entries):
        raise _unreadable(file, "`tables` is no list")
    for entry in entries:
        block: object = {"name": entry} if isinstance(entry, str) else entry
        if not is_object(block) or not isinstance(block.get("name"), str):
            raise _unreadable(file, "a table has no name")
        yield block


def _checked(file: str, name: str) -> str:
    if not is_table_name(name):
        raise _unreadable(file, f"no table can be named {name!r:.80}")
    return name


def _restricted_elsewhere(documents: Mapping[str, _Document]) -> Iterator[str]:
    """Yield what blocks of models and memory restrict; what else they say is not about reads."""
    for document in documents.values():
        for kind in ("model", "table", "relation"):
            for block in _listed(document, kind):
                name = block.get("name", block.get("id")) if is_object(block) else None
                if isinstance(name, str) and is_table_name(name) and is_restricting(block):
                    yield name


def _listed(document: _Document, name: str) -> Sequence[Any]:
    found = document.get(name)
    return found if is_list(found) else []


def _vocabulary(lexicon: Any, name: str) -> Mapping[str, Any]:
    found = lexicon.get(name) if is_object(lexicon) else None
    # TOML has times, which JSON writes as text.
    return msgspec.to_builtins(found) if is_object(found) else {}


def _is_incognito(main: _Document) -> bool:
    """Tell what `[project.zone] incognito_default` says; anything but a plain no is yes."""
    project = main.get("project")
    zone = project.get("zone") if is_object(project) else None
    return is_object(zone) and zone.get("incognito_default", False) is not False
