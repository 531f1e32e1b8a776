"""What a file is for, by its path: code goes before prose, and prose before what was generated. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from .language import listed

__all__ = ["is_test", "prior_of"]

_CODE, _TEST, _ASKED_TEST, _PROSE, _LEAST = 0.08, -0.06, 0.05, -0.20, -0.25

_GENERATED_FOLDERS = listed("""
    build coverage dist generated gen out target vendor vendors site-packages dist-packages thirdparty
    external node_modules bower_components __pycache__ .venv venv
""")
_GENERATED_NAME = re.compile(r"\.generated\.|\.generated$|\.map$|(?:^|[._-])min(?:ified)?(?:[._-]|$)")
_KEPT_HIDDEN = frozenset({".github", ".gitlab", ".circleci", ".devcontainer", ".husky", ".config"})
_PATCHES = frozenset({".diff", ".patch", ".orig", ".rej"})
_LANGUAGE_FOLDERS = frozenset({"i18n", "l10n", "lang", "langs", "locale", "locales", "translations"})
_LANGUAGE_SUFFIXES = frozenset({".po", ".pot", ".xliff", ".xlf", ".strings", ".resx", ".arb", ".ftl"})
_LANGUAGE_STEM = re.compile(r"[a-z]{2,3}(?:[_-][a-z]{2,4})?")
_DATA_SUFFIXES = listed("""
    .json .json5 .yaml .yml .toml .xml .csv .tsv .properties .mcmeta .nbt .snbt .ini .cfg .conf
""")
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "__test__", "testing", "spec", "specs", "e2e"})
_PROSE_FOLDERS = frozenset({"doc", "docs", "documentation"})
_PROSE_SUFFIXES = frozenset({".adoc", ".md", ".mdx", ".rst", ".textile"})
_PROSE_STEMS = listed("authors changelog codeowners contributing copying license notice readme security")
_CODE_FOLDERS = listed("app bin client cmd include lib module modules pkg server service services src")
_CODE_SUFFIXES = listed("""
    .py .ts .tsx .js .jsx .mjs .cjs .go .java .rs .c .h .cpp .cc .cxx .hpp .hh .hxx .cs .rb .php .kt .kts .lua
    .json .yml .yaml .toml .sql .tf .tfvars .hcl .ini .cfg .conf .properties .dockerfile .containerfile
    .makefile .gnumakefile .asm .dart .ex .exs .fs .fsx .groovy .hs .jl .m .mm .nim .pl .proto .scala .sh
    .swift .v .vue .zig
""")
_CODE_NAMES = frozenset({"dockerfile", "containerfile", "makefile", "gnumakefile"})


def is_test(path: str) -> bool:
    """Tell whether the file at *path* is a test, or lies among tests."""
    file = PurePosixPath(path.replace("\\", "/").lower())
    stem = file.name.split(".", 1)[0]
    return (
        not _TEST_FOLDERS.isdisjoint(file.parts[:-1])
        or stem == "test"
        or stem.startswith("test_")
        or stem.endswith("_test")
        or ".test." in file.name
        or ".spec." in file.name
    )


def prior_of(path: str, *, is_about_tests: bool) -> float:
    """Return what is added for the kind of file at *path*; nothing for one in no folder."""
    path = path.replace("\\", "/").lower()
    if "/" not in path:
        return 0.0
    file = PurePosixPath(path)
    folders = [part for part in file.parts[:-1] if part]
    if _is_least(file, folders):
        return _LEAST
    if is_test(path):
        return _ASKED_TEST if is_about_tests else _TEST
    stem = file.name.rsplit(".", 1)[0]
    if not _PROSE_FOLDERS.isdisjoint(folders) or file.suffix in _PROSE_SUFFIXES or stem in _PROSE_STEMS:
        return _PROSE
    is_code = file.suffix in _CODE_SUFFIXES or file.name in _CODE_NAMES
    return _CODE if is_code or not _CODE_FOLDERS.isdisjoint(folders) else 0.0


def _is_least(file: PurePosixPath, folders: list[str]) -> bool:
    """Tell whether a file was made by a program, is a translation, or a note of work in progress."""
    return (
        _GENERATED_NAME.search(file.name) is not None
        or not _GENERATED_FOLDERS.isdisjoint(folders)
        or file.suffix in _PATCHES
        or any(len(part) > 1 and part.startswith(".") and part not in _KEPT_HIDDEN for part in folders)
        or _is_translation(file, folders)
    )


def _is_translation(file: PurePosixPath, folders: list[str]) -> bool:
    if file.suffix in _LANGUAGE_SUFFIXES:
        return True
    stem = file.name.rsplit(".", 1)[0]
    return not _LANGUAGE_FOLDERS.isdisjoint(folders) and (
        file.suffix in _DATA_SUFFIXES or _LANGUAGE_STEM.fullmatch(stem) is not None
    )
