"""A model of dbt as a definition, and what a run does with it; without dbt and without a JVM."""

from __future__ import annotations

import runpy

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import materializer
from materializer.adapters.dbt.model import Model
from materializer.core.language.parse import parse_definitions
from materializer.errors import UsageError
from tests.paths import ROOT

SELECT = "SELECT time_bucket('1 hour', ts) AS at, sum(v) AS v FROM raw GROUP BY 1"


ANY = st.one_of(st.sampled_from("\\'\"\nnt;-"), st.characters(codec="utf-8", exclude_characters="\x00"))


@example(comment="the end is a \\")
@example(comment='no line ends in \\n here, and it\'s "quoted"')
@given(comment=st.text(alphabet=ANY))
def test_a_description_comes_back_as_it_was(comment: str) -> None:
    """
    Whatever characters it has.
    """
    [spec] = parse_definitions(Model("bars", "gold.bars", SELECT, comment).definition)

    assert comment == spec.comment


@pytest.mark.parametrize("end", ["", ";", " ;\n", "\n-- the end"])
def test_a_select_may_end_as_it_likes(end: str) -> None:
    """
    With a semicolon, or with a comment.
    """
    [spec] = parse_definitions(Model("bars", "gold.bars", SELECT + end, properties={"quality.checks": True}).definition)

    assert {"output.table": "gold.bars", "quality.checks": "true"} == spec.property_map


def test_the_name_of_the_output_is_the_model_s() -> None:
    """
    A property that says another is refused, as is an unknown setting.
    """
    with pytest.raises(UsageError, match="which dbt gives"):
        Model("bars", "gold.bars", SELECT, properties={"Output.Table": "x.y"}).definition  # noqa: B018
    with pytest.raises(UsageError, match="on_configuration_change 'rebuild'"):
        Model("bars", "gold.bars", SELECT, on_change="rebuild").definition  # noqa: B018


def test_the_version_of_the_adapter_is_ours() -> None:
    """What dbt reads first when it loads the adapter needs no dbt, and does not depend on the name of the distribution."""
    found = runpy.run_path(str(ROOT / "dbt" / "adapters" / "materializer" / "__version__.py"))

    assert materializer.__version__ == found["version"]
