"""What a project declares of its tables, and what is withheld because of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collated_readers import StoreError
from collated_readers.contextful.declarations import Declarations, load_declarations
from collated_readers.contextful.model import Declared, Limits, Retention, Template, ValidTime

DAY = 86_400 * 10**9


@pytest.fixture
def declarations(tmp_path: Path) -> Any:
    """`declarations(main=None, **pipelines)` are a project's; a `_` in the name of a file is its dot."""

    def load(main: str | None = None, **pipelines: str) -> Declarations:
        if main is not None:
            (tmp_path / "contextful.toml").write_text(main)
        for name, text in pipelines.items():
            (tmp_path / "pipelines").mkdir(exist_ok=True)
            (tmp_path / "pipelines" / name.replace("_", ".")).write_text(text)
        return load_declarations(str(tmp_path))

    return load


def table(*lines: str, name: str = "t") -> str:
    """Return a block that declares the table *name*."""
    return "\n".join(["[[pipeline.tables]]", f'name = "{name}"', *lines, ""])


def test_a_project_without_a_declaration_declares_nothing(declarations: Any) -> None:
    assert declarations() == Declarations()


def test_every_key_that_reads_care_for_is_taken(declarations: Any) -> None:
    block = table(
        'primary_key = ["a", "b"]',
        'order_by = "u"',
        'write_mode = "replace"',
        'partition_by = ["p"]',
        'cluster_by = ["c"]',
        'retain_rows = { column = "u", age = "30d" }',
        'retain_runs = "7d"',
        "retain_versions = true",
        'content_hash_column = "h"',
        'agent_description = "what it is"',
        'agent_hint = "how to ask"',
        'example_queries = ["SELECT 1"]',
        'column_hints = { a = "the first" }',
        'columns = { b = "text", a = "timestamp" }',
        'available_time = "known_at"',
        'result_cache = "10m"',
        "private = true",
        'subject_id = "a"',
        "replicate = false",
        'valid_time = { from = "f", to = "g" }',
        'retrieve = { text = ["title"] }',
        'indexes = [{ kind = "fulltext", column = "title" }]',
        "[pipeline.tables.policy]",
        "limits = { max_rows = 5, max_duration_ms = 6, max_response_bytes = 7 }",
        'zone = { allow = ["on-prem:*", "local:device"], protected_class_override = [] }',
        "redistribution = { replicate = false }",
    )
    found = declarations(block).tables["t"]
    assert found == Declared(
        name="t",
        primary_key=("a", "b"),
        order_by="u",
        write_mode="replace",
        valid_time=ValidTime("f", "g"),
        columns=found.columns,
        partition_by=("p",),
        retain_rows=Retention("u", 30 * DAY),
        retain_versions=True,
        content_hash_column="h",
        retrieve_text=("title",),
        indexes=({"kind": "fulltext", "column": "title"},),
        description="what it is",
        hint="how to ask",
        column_hints={"a": "the first"},
        example_queries=("SELECT 1",),
        limits=Limits(5, 6, 7),
        zone_allow=("on-prem:*", "local:device"),
        available_time="known_at",
    )
    assert [(column.name, column.type) for column in found.columns] == [
        ("b", "VARCHAR"),
        ("a", "TIMESTAMPTZ"),
    ]


@pytest.mark.rule("declaration-set")
def test_tables_come_from_the_declaration_and_the_files_beside_it(declarations: Any) -> None:
    pipelines = {
        "a_toml": table(name="kb/plain"),
        "b_toml": '[[pipeline]]\nid = "Feed-Sync"\ntables = ["Items", { name = "b.c", primary_key = ["k"] }]',
        "c_toml": 'id = "one"\ntables = ["t"]',
        "d_json": json.dumps({"id": "two", "source": {"name": "http"}, "tables": [{"name": "Ünö"}]}),
        "e_json": json.dumps({"pipeline": [{"id": "three", "tables": ["t"]}]}),
        "f_txt": "not ours",
        "_toml": "not ours either",
    }
    main = table(name="notes") + '[[model]]\nid = "m"\n'
    found = declarations(main, **pipelines).tables
    assert list(found) == [
        "notes", "kb/plain", "feed_sync_items", "feed_sync_b_c", "one_t", "two__n_", "three_t",
    ]  # fmt: skip
    assert found["feed_sync_b_c"].primary_key == ("k",)
    assert not [one for one in found.values() if one.withheld]


def test_one_pipeline_of_the_declaration_itself_is_folded_too(declarations: Any) -> None:
    found = declarations('[[pipeline]]\nid = "p"\n[[pipeline.tables]]\nname = "T"\n')
    assert list(found.tables) == ["p_t"]


def test_a_name_that_is_declared_twice_is_withheld(declarations: Any) -> None:
    found = declarations(table(name="p_t") + table(name="u"), x_toml='id = "p"\ntables = ["t"]').tables
    assert found["p_t"].withheld == "it is declared twice"
    assert found["u"].withheld is None


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (['policy.rows = { predicate = "true" }'], "a policy of rows"),
        (['policy.columns.a = { class = "phi" }'], "a policy of columns"),
        (['class = "phi"'], "a class"),
        (['visibility = { family = "x" }'], "a visibility"),
        (['view = "v"'], "a view"),
        (['policy.zone.allow = ["*", "local:*"]'], "an entry that is not known"),
        (['policy.zone.allow = ["on-prem:**", "local:device"]'], "an entry that is not known"),
        (["policy.zone = {}"], "not understood"),
        (["policy.tenants = {}"], "not understood"),
        (["policy.limits.max_rows = -1"], "not understood"),
        (["policy.limits.max_words = 1"], "not understood"),
        (["restricted_to = 1"], "not understood"),
        (['primary_key = "a"'], "not understood"),
        (['write_mode = "upsert"'], "not understood"),
        (['retain_rows = { column = "u", age = "soon" }'], "not understood"),
        (['retain_rows = { column = "u" }'], "not understood"),
        (['columns = { a = "varchar" }'], "not understood"),
        (['valid_time = { to = "g" }'], "not understood"),
    ],
)
def test_a_table_is_withheld_with_the_reason(declarations: Any, lines: list[str], reason: str) -> None:
    found = declarations(table(*lines) + table(name="other")).tables
    assert reason in (found["t"].withheld or "")
    assert found["other"].withheld is None


@pytest.mark.rule("describe-zone")
@pytest.mark.parametrize(
    "lines", [[], ['policy.zone.allow = ["*"]'], ['policy.zone.allow = ["local:device", "on-prem:ward-3"]']]
)
def test_a_zone_that_is_not_declared_admits_this_machine_and_so_do_these(
    declarations: Any, lines: list[str]
) -> None:
    assert declarations(table(*lines)).tables["t"].withheld is None


@pytest.mark.rule("describe-zone")
@pytest.mark.parametrize("allow", [(), ("on-prem:*",)])
def test_a_zone_that_keeps_this_machine_out_is_kept_to_by_the_session(
    declarations: Any, allow: tuple[str, ...]
) -> None:
    found = declarations(table(f"policy.zone.allow = {list(allow)}")).tables["t"]
    assert (found.withheld, found.zone_allow) == (None, allow)


def test_a_model_or_a_memory_table_that_is_restricted_is_withheld(declarations: Any) -> None:
    found = declarations(
        '[[model]]\nid = "daily"\nclass = "phi"\n[[table]]\nname = "facts"\nvisibility = {}\n'
    )
    assert {name: bool(one.withheld) for name, one in found.tables.items()} == {"daily": True, "facts": True}


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"main": "not TOML"}, "contextful.toml"),
        ({"main": "x = " + "[" * 100_000}, "contextful.toml"),
        ({"main": "x = '" + "a" * 2**20 + "'"}, "contextful.toml"),
        ({"main": "pipeline = 3"}, "contextful.toml"),
        ({"main": '[pipeline]\nid = "p"\ntables = ["t"]'}, "contextful.toml"),
        ({"main": "[pipeline]\ntables = 3"}, "contextful.toml"),
        ({"main": "[pipeline]\ntables = [3]"}, "contextful.toml"),
        ({"main": "[[pipeline.tables]]\nname = 3"}, "contextful.toml"),
        ({"main": table(name="../secrets")}, "contextful.toml"),
        ({"main": table(name="a/data")}, "contextful.toml"),
        ({"main": table(name="t__requests")}, "contextful.toml"),
        ({"main": "[[pipeline]]\ntables = []"}, "contextful.toml"),
        ({"a_toml": "="}, "pipelines/a.toml"),
        ({"a_json": "{"}, "pipelines/a.json"),
        ({"a_json": "[]"}, "pipelines/a.json"),
        ({"a_json": '{"a": ' + "[" * 100_000}, "pipelines/a.json"),
        ({"a_toml": "pipeline = [3]"}, "pipelines/a.toml"),
    ],
)
def test_a_file_that_cannot_be_used_refuses_the_whole_store(
    declarations: Any, files: dict[str, str], name: str
) -> None:
    with pytest.raises(StoreError) as caught:
        declarations(**files)
    assert caught.value.code == "declaration_unreadable"
    assert name in caught.value.message


@pytest.mark.parametrize("name", ["contextful.toml", "pipelines", "pipelines/a.toml"])
def test_a_declaration_that_is_a_symlink_refuses_the_whole_store(
    declarations: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as caught:
        declarations()
    assert caught.value.code == "declaration_unreadable"


@pytest.mark.rule("lexicon-surface")
def test_of_the_lexicon_two_vocabularies_are_taken(declarations: Any) -> None:
    lines = [
        "numeric_identifiers = { cik = 'firm' }",
        "badges = { new = 2030-01-01 }",
        "aliases = { a = 'b' }",
    ]
    found = declarations("\n".join(["[lexicon]", *lines]))
    assert (found.numeric_identifiers, found.badges) == ({"cik": "firm"}, {"new": "2030-01-01"})
    odd = declarations("lexicon = 3")
    assert (odd.numeric_identifiers, odd.badges) == ({}, {})


@pytest.mark.rule("incognito")
@pytest.mark.parametrize(
    ("text", "is_incognito"),
    [
        ("", False),
        ("[project]\nname = 'x'", False),
        ("[project.zone]\ndefault = 'on-prem:hq'", False),
        ("[project.zone]\nincognito_default = false", False),
        ("[project.zone]\nincognito_default = true", True),
        ("[project.zone]\nincognito_default = 'no'", True),
    ],
)
def test_a_project_is_incognito_when_it_says_so(declarations: Any, text: str, is_incognito: bool) -> None:
    assert declarations(text).is_incognito is is_incognito


# ---------------------------------------------------------------------------- templates


def template(named: str = "q", sql: str = "SELECT 1", **more: Any) -> str:
    """Return the declaration of a template."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"id": named, "sql": sql, **more}.items()]
    return "\n".join(["[[query_templates]]", *lines, ""])


@pytest.mark.rule("template-declaration")
def test_a_template_is_an_id_one_statement_typed_parameters_and_a_ceiling(declarations: Any) -> None:
    types = ["integer", "float", "string", "timestamp", "boolean"]
    found = declarations(template(parameters=[f"p_{one}:{one}" for one in types], max_rows=5) + template("r"))
    assert found.templates == (
        Template("q", "SELECT 1", tuple((f"p_{one}", one) for one in types), 5),
        Template("r", "SELECT 1"),
    )
    assert found.withheld_templates == {}


@pytest.mark.rule("template-reserved-parameter", "available-reserved-parameter")
@pytest.mark.parametrize("name", ["as_of", "valid_as_of", "available_as_of", "zone", "pin"])
def test_a_parameter_cannot_be_named_like_a_bound(declarations: Any, name: str) -> None:
    found = declarations(template(parameters=[f"{name}:string"]) + template("r"))
    assert [one.id for one in found.templates] == ["r"]
    assert name in found.withheld_templates["q"].message


@pytest.mark.rule("template-relation-shape")
@pytest.mark.parametrize("name", ["context.query", "corpus.x", "memory.recall"])
def test_a_template_cannot_be_named_like_a_tool(declarations: Any, name: str) -> None:
    found = declarations(template(name))
    assert found.templates == ()
    assert found.withheld_templates[name].code == "TemplateNamesForeignRelation"


@pytest.mark.parametrize(
    "text",
    [
        template(extra=1),
        template(sql=3),  # type: ignore[arg-type]  # what a store may hold
        template(max_rows=-1),
        template(parameters=["p"]),
        template(parameters=["p:text"]),
        template(parameters=["p q:string"]),
        template(parameters=["p:string", "p:string"]),
        template() + template(),
        template() + template() + template(),
        "[[query_templates]]\nid = 'q'\n",
    ],
)
def test_a_template_that_is_not_understood_is_withheld(declarations: Any, text: str) -> None:
    found = declarations(text + template("sound"))
    assert [one.id for one in found.templates] == ["sound"]
    assert found.withheld_templates["q"].code == "TemplateArgumentRejected"


def test_what_is_no_template_at_all_is_nothing_that_one_could_ask(declarations: Any) -> None:
    found = declarations("query_templates = [3, {}, { id = '' }, { id = 3 }]")
    assert (found.templates, found.withheld_templates) == ((), {})
