"""A dbt project that others write: what its models, aliases, descriptions and properties become; no dbt, no JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from materializer.adapters.dbt.model import Model, run
from materializer.config import Config
from materializer.core.language.parse import parse_definitions
from materializer.errors import MaterializerError, UsageError
from materializer.spark.run.executor import Executor
from tests.attacks.table import attack
from tests.hints.world import HOURLY, World
from tests.services.no_spark import NoSpark, Opened

SELECT = HOURLY[HOURLY.index("SELECT") :]
TEXTS = (
    "{{ var.value.secret }}{% for c in [] %}",
    "it's \\' \" over'; DROP TABLE gold.other; --",
    "<script>alert(1)</script> ![](https://evil.example/a.png)",
    "a\nTBLPROPERTIES ('output.table' = 'gold.other')\nAS SELECT 1",
    "../../other",
    "*/ /* -- ${env:HOME} $(touch owned) `touch owned`",
)


class EmptyCatalog(NoSpark):
    """No Spark, and a catalog in which no name is taken."""

    catalogs = SimpleNamespace(refuse_taken=lambda *_: None)


def before_and_after(world: World, model: Model) -> tuple[object, object]:
    """Return the definitions of the lake before and after a model that is refused."""
    executor = Executor(Config(), None, {}, started=EmptyCatalog())  # type: ignore[arg-type]
    lake = Opened(replace(world.lake.wired, engine=executor.engine), executor)
    before = {name: state.spec for name, state in named(world).items()}
    with pytest.raises(UsageError, match="nothing was written"):
        run(lake, model)
    return before, {name: state.spec for name, state in named(world).items()}


def named(world: World) -> dict[str, object]:
    """Return the aggregates of the lake by name."""
    return {state.name: state for state in world.lake.wired.journal.view().states.values()}


@attack(
    "A dbt project",
    "an alias of a model ends the name, and defines another aggregate or a place",
    "an error that names it; nothing was written",
)
@pytest.mark.parametrize(
    "alias",
    [
        "x AS SELECT 1; CREATE MATERIALIZED VIEW hourly",
        "x; DROP MATERIALIZED VIEW hourly; --",
        "`x` --",
        "x\nCOMMENT 'y'",
        "../hourly",
        "{{ target.name }}",
        "",
    ],
)
def test_an_alias_is_a_name(world: World, alias: str) -> None:
    """
    Of letters, digits and underscores.
    """
    before, after = before_and_after(world, Model(alias, "gold.x", SELECT))

    assert before == after


@attack(
    "A dbt project",
    "the SELECT of a model ends its statement and defines another aggregate of the lake anew",
    "an error that names the other one; nothing was written",
)
@pytest.mark.parametrize("between", [";", " ;\n-- more\n", "/* a */;;"])
def test_a_model_defines_itself_only(world: World, between: str) -> None:
    """
    A semicolon, or a comment, at its end is still no more than an end.
    """
    other = HOURLY.replace("1 hour", "2 hours")
    before, after = before_and_after(world, Model("bars", "gold.bars", f"{SELECT}{between}{other}"))

    assert before == after
    assert {"hourly"} == set(after)


@attack(
    "A dbt project",
    "a description or a property holds quotes, Jinja, HTML, comments of SQL, a clause of its own",
    "it is stored as it was, and changes nothing else of the definition",
)
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_of_a_model_are_text(text: str) -> None:
    """
    The name of the output stays the model's.
    """
    [plain] = parse_definitions(Model("bars", "gold.bars", SELECT).definition)
    [spec] = parse_definitions(Model("bars", "gold.bars", SELECT, text).definition)

    assert text == spec.comment
    assert {"output.table": "gold.bars"} == spec.property_map
    assert (plain.name, plain.source, plain.columns) == (spec.name, spec.source, spec.columns)
    with pytest.raises(MaterializerError):  # an unknown property, in one piece
        parse_definitions(Model("bars", "gold.bars", SELECT, properties={text: text}).definition)
