"""Settings: defaults, file, environment, and every problem at once."""

from __future__ import annotations

import io
import pickle
import pprint
from pathlib import Path
from typing import Any

import pytest
import rich
from msgspec import Struct
from msgspec.structs import asdict, replace
from rich.console import Console

from materializer import config
from materializer.api import Materializer
from materializer.config import CanaryConfig, Config, Limits, QualityConfig, SparkConfig
from materializer.errors import ConfigError

FULL = """
lake = "tables"
lease_seconds = 45

[sources]
flights = "raw/flights"
trades = "bronze.trades"
remote = "s3://bucket/trades"

[limits]
windows = 20_000

[quality.canaries]
executor = "spark"

[spark]
profile = "long"
memory = "6g"
jars = "jars"

[spark.options]
"spark.sql.shuffle.partitions" = 8
spark.hadoop.fs.s3a.fast.upload = true
"""


def read(tmp_path: Path, text: str | None = None, **environ: str) -> Config:
    if text is not None:
        (tmp_path / config.FILE_NAME).write_text(text)
    return config.read(environ=environ, directory=tmp_path)


def problems(tmp_path: Path, text: str | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text, **environ)
    return caught.value.message.splitlines()


def test_a_lake_needs_no_file(tmp_path: Path) -> None:
    """
    Without a file and without variables every setting has its default.
    """
    assert read(tmp_path) == Config()


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    """
    Editors of Windows write it, and show nothing there.
    """
    assert str(tmp_path / "tables") == read(tmp_path, '\ufefflake = "tables"\n').lake


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    """
    Paths start from the file's folder; URIs and catalog names stay; unquoted Spark options are one dotted name.
    """
    assert read(tmp_path, FULL) == Config(
        lake=str(tmp_path / "tables"),
        lease_seconds=45,
        limits=Limits(windows=20_000),
        quality=QualityConfig(CanaryConfig("spark")),
        sources={
            "flights": str(tmp_path / "raw/flights"),
            "trades": "bronze.trades",
            "remote": "s3://bucket/trades",
        },
        spark=SparkConfig(
            profile="long",
            memory="6g",
            jars=tmp_path / "jars",
            options={"spark.sql.shuffle.partitions": "8", "spark.hadoop.fs.s3a.fast.upload": "true"},
        ),
        file=tmp_path / config.FILE_NAME,
    )


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    """
    A variable replaces the file's value of the same key and leaves the others.
    """
    found = read(tmp_path, FULL, MATERIALIZER_LEASE_SECONDS="7", MATERIALIZER_JARS="/jars")

    assert (found.lease_seconds, found.spark.jars) == (7, Path("/jars"))
    assert found.spark.profile == "long"


def test_variables_of_commands_are_left_alone(tmp_path: Path) -> None:
    """
    Options of commands share the prefix; only a near miss of a setting is a problem.
    """
    assert read(tmp_path, MATERIALIZER_JSON="1", MATERIALIZER_START="2013-01-01") == Config()
    assert problems(tmp_path, MATERIALIZER_LEASE_SECOND="7") == [
        "environment: unknown variable 'MATERIALIZER_LEASE_SECOND'; the nearest known one is 'MATERIALIZER_LEASE_SECONDS'"
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lease_second = 3", "unknown key 'lease_second'; the nearest known one is 'lease_seconds'"),
        ("lease_seconds = 0", "'lease_seconds' must be a whole number of at least 1, found 0"),
        ("run_rows = true", "'run_rows' must be a whole number of at least 1, found True"),
        ("run_rows = 1.5", "'run_rows' must be a whole number of at least 1, found 1.5"),
        ("lake = 3", "'lake' must be a path or URI, found 3"),
        ("spark = 3", "'spark' must be a table, found 3"),
        ("[limits]\nwindow = 3", "unknown key 'limits.window'; the nearest known one is 'limits.windows'"),
        ("limits = 3", "'limits' must be a table, found 3"),
        ("[quality]\ncanaries = 3", "'quality.canaries' must be a table, found 3"),
        (
            "[quality.canaries]\nexecutor = 'both'",
            "'quality.canaries.executor' must be 'auto', 'local' or 'spark', found 'both'",
        ),
        ("[quality]\nsuites = 3", "unknown key 'quality.suites'"),
        ("[spark]\nprofil = 'long'", "unknown key 'spark.profil'; the nearest known one is 'spark.profile'"),
        ("[spark]\nprofile = 'fast'", "'spark.profile' must be 'auto', 'short' or 'long', found 'fast'"),
        (
            "[spark]\nmaster = 'lokal'",
            "'spark.master' must be a Spark master such as 'local[4]', 'spark://host:7077', 'yarn' or 'k8s://https://host:6443', found",
        ),
        (
            "[spark]\nremote = 'host:15002'",
            "'spark.remote' must be a Spark Connect server such as 'sc://host:15002' or 'sc://host:443/;use_ssl=true', found",
        ),
        (
            "driver_bytes = '256 MB'",
            "'driver_bytes' must be a number of bytes, or a size such as '256m', found '256 MB'",
        ),
        ("driver_bytes = 0", "'driver_bytes' must be a number of bytes, or a size such as '256m', found 0"),
        ("[spark]\nmemory = '2gb'", "'spark.memory' must be a size such as '2g' or '900m', found '2gb'"),
        ("[sources]\nflights = 3", "'sources' must be a table of name = \"path, URI or catalog name\""),
        ("[spark.options]\na = [1]", "'spark.options' must be a table of texts, numbers and truth values (at 'a')"),
    ],
)
def test_a_problem_names_file_key_found_and_wanted(tmp_path: Path, text: str, wanted: str) -> None:
    """
    Each kind of bad value is one line that begins with the file.
    """
    (line,) = problems(tmp_path, text)

    assert line.startswith(f"{tmp_path / config.FILE_NAME}: {wanted}")


@pytest.mark.parametrize(
    "text",
    [
        "[spark]\nmaster = 'yarn'\nremote = 'sc://host'",
        "[spark]\nmaster = 'yarn'\n[spark.options]\n'spark.master' = 'yarn'",
        "[spark]\nremote = 'sc://host'\n[spark.options]\n'spark.master' = 'yarn'",
    ],
)
def test_one_setting_says_where_spark_runs(tmp_path: Path, text: str) -> None:
    """
    Two that could contradict each other are refused, wherever they are given.
    """
    (line,) = problems(tmp_path, text)

    assert line.endswith("are given, but only one of them can say where Spark runs")


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("'64k'", 1 << 16), ("'256M'", 1 << 28), ("'1g'", 1 << 30)])
def test_the_budget_of_the_driver_is_rows_and_bytes(tmp_path: Path, text: str, size: int) -> None:
    """
    It holds what is within both, as a number or a size.
    """
    found = read(tmp_path, f"driver_bytes = {text}\ndriver_lane_rows = 10")

    assert size == found.driver_bytes
    assert [True, False, False] == [found.driver_holds(*of) for of in ((10, size), (11, 0), (1, size + 1))]


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    """
    Neither a problem nor the settings themselves print what a server's address holds.
    """
    (line,) = problems(tmp_path, "[spark]\nremote = 'sc:/host/;token=secret'")
    good = read(tmp_path, "[spark]\nremote = 'sc://host/;token=secret'")

    assert "secret" not in line
    assert "secret" not in repr(good)
    assert good.spark.remote.endswith("secret")


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "spark://a:7077,b:7077", "yarn", "k8s://https://h:1"]
)
def test_masters_are_as_spark_has_them(tmp_path: Path, master: str) -> None:
    """
    Those of this machine are local; a cluster's are not, nor is a server.
    """
    found = read(tmp_path, MATERIALIZER_SPARK_MASTER=master).spark

    assert (master, master.startswith("local")) == (found.master, found.is_local)
    assert not read(tmp_path, MATERIALIZER_SPARK_REMOTE="sc://host:1").spark.is_local


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    """
    Problems of file and environment are reported together, and counted.
    """
    found = problems(tmp_path, "lake = 1\nrun_rows = 0\ncolour = 'red'", MATERIALIZER_SPARK_PROFILE="fast")

    assert len(found) == 4
    assert "known are" in found[2]


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    """
    A missing default file is fine, a missing named one is an error; so is one that is no TOML, and an empty name of a call.
    """
    assert config.read(environ={"MATERIALIZER_CONFIG": ""}, directory=tmp_path).file is None
    with pytest.raises(ConfigError, match="does not exist"):
        config.read("", environ={}, directory=tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        config.read(tmp_path / "other.toml", environ={})
    with pytest.raises(ConfigError, match="does not exist"):
        config.read(environ={"MATERIALIZER_CONFIG": "other.toml"}, directory=tmp_path)
    (tmp_path / "other.toml").write_text("lake = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.read(tmp_path / "other.toml", environ={})


@pytest.mark.parametrize("lake", ["hdfs://host/lake", "s3://key:hidden@bucket/lake"])
def test_a_lake_is_at_a_place(lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A URL that cannot be a lake's is refused, given or configured, before it becomes a folder with that name.
    """
    monkeypatch.chdir(tmp_path)
    for call in (lambda: Materializer(lake), lambda: Materializer(config=Config(lake=lake))):
        with pytest.raises(ConfigError, match=r"the place|unknown scheme"):
            call()
    assert [] == list(tmp_path.iterdir())


def test_a_lake_may_have_the_url_of_its_folder(tmp_path: Path) -> None:
    """
    A `file` URL is the path that it names.
    """
    assert tmp_path / "a lake" == Materializer((tmp_path / "a lake").as_uri()).root


def test_secrets_of_stores_are_never_shown(tmp_path: Path) -> None:
    """
    Settings of stores are taken as they are, and neither the settings nor a complaint about them show a value.
    """
    file = tmp_path / config.FILE_NAME
    file.write_text('[storage]\naws_secret_access_key = "hidden"\naws_allow_http = true\n')
    settings = config.read(file, environ={})

    assert {"aws_secret_access_key": "hidden", "aws_allow_http": "true"} == settings.storage
    assert "hidden" not in repr(settings)
    for wrong in ('[storage]\nsecret = "hidden"', 'storage = "hidden"', '[storage]\naws_x = ["hidden"]'):
        assert not any("hidden" in line for line in problems(tmp_path, wrong))


def test_tools_that_print_attributes_show_no_secret(tmp_path: Path) -> None:
    """
    What a notebook prints of settings, of their fields and of a lake: nothing of a store's keys, of options and of addresses. The values
    themselves are what was given, also in a copy.
    """
    word = "very-hidden"
    given = config.Config(
        lake=str(tmp_path),
        storage={"aws_secret_access_key": word, "azure_something": word},
        spark=config.SparkConfig(remote=f"sc://host/;token={word}", options={"spark.hadoop.fs.s3a.secret.key": word}),
        openlineage=config.OpenLineageConfig(url=f"https://host/?key={word}"),
        metrics=config.MetricsConfig(endpoint=f"https://{word}@host"),
    )
    out = io.StringIO()
    console = Console(file=out, width=10_000)
    copied = pickle.loads(pickle.dumps(replace(given, lake="other")))
    for value in (
        given,
        given.spark,
        given.openlineage,
        given.metrics,
        given.storage,
        copied,
        Materializer(tmp_path, config=given),
    ):
        rich.inspect(value, console=console, private=True, docs=False)
        console.print(value)
        out.write(
            f"{value!r} {value} {pprint.pformat(value)} {vars(value) if hasattr(value, '__dict__') else asdict_of(value)}"
        )

    assert word not in out.getvalue()
    assert "***" in out.getvalue()
    assert {"aws_secret_access_key": word, "azure_something": word} == given.storage == copied.storage
    assert f"sc://host/;token={word}" == str(copied.spark.remote)
    assert f"https://{word}@host/v1" == f"{given.metrics.endpoint}/v1"


def asdict_of(value: Any) -> Any:
    """Return the fields of a value by their names; other values as they are."""
    return asdict(value) if isinstance(value, Struct) else value


def test_lineage_and_metrics_are_off_until_a_place_is_given(tmp_path: Path) -> None:
    """
    Either by a place or by a word; a word turns off what has a place. Variables of others mean nothing here.
    """
    others = {"OPENLINEAGE_URL": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    file = tmp_path / config.FILE_NAME
    file.write_text("")
    off = config.read(file, environ=others)
    file.write_text('[openlineage]\nfile = "events.jsonl"\n[metrics]\nendpoint = "http://host:4318/v1/metrics"\n')
    on = config.read(file, environ={})
    silenced = config.read(
        file, environ={"MATERIALIZER_OPENLINEAGE_ENABLED": "false", "MATERIALIZER_METRICS_OTLP": "no"}
    )

    assert (False, False) == (off.openlineage.is_on, off.metrics.is_otlp_on)
    assert (True, True, tmp_path / "events.jsonl") == (on.openlineage.is_on, on.metrics.is_otlp_on, on.openlineage.file)
    assert (False, False) == (silenced.openlineage.is_on, silenced.metrics.is_otlp_on)


def test_addresses_of_listeners_are_checked_and_not_shown(tmp_path: Path) -> None:
    """
    Only HTTP, one place for events, and no address in a complaint or in the settings as text, since it may hold a token.
    """
    both = '[openlineage]\nurl = "http://host:5000"\nfile = "events.jsonl"'
    file = tmp_path / config.FILE_NAME
    file.write_text('[openlineage]\nurl = "http://host:5000/?key=hidden"')

    assert "hidden" not in repr(config.read(file, environ={}))
    assert ["openlineage.url and openlineage.file are given, but events go to one place"] == problems(tmp_path, both)
    for wrong in ('[openlineage]\nurl = "kafka://hidden"', "[metrics]\nendpoint = 'hidden'"):
        found = problems(tmp_path, wrong)
        assert len(found) == 1
        assert "hidden" not in found[0]


ENVIRONMENTS = """
lake = "lake"
run_rows = 5
[sources]
trades = "lake/trades"
rates = "lake/rates"
[spark]
memory = "4g"
[env.dev]
lake = "dev"
[env.dev.sources]
trades = "samples/trades"
[env.dev.spark]
memory = "1g"
[env.prod]
lake = "s3://company/lake"
"""


def test_an_environment_overrides_settings_by_name(tmp_path: Path) -> None:
    """
    By the option or by the variable, of which the option counts; sources one by one, and a variable of a setting before all.
    """
    file = tmp_path / config.FILE_NAME
    file.write_text(ENVIRONMENTS)
    plain, dev = config.read(file, environ={}), config.read(file, environ={"MATERIALIZER_ENV": "prod"}, env="dev")
    prod = config.read(file, environ={"MATERIALIZER_ENV": "prod"})
    named = config.read(file, environ={"MATERIALIZER_ENV": "dev", "MATERIALIZER_LAKE": "s3://mine/lake"})

    assert [str(tmp_path / "lake"), "s3://company/lake"] == [str(plain.lake), prod.lake]
    assert "s3://mine/lake" == named.lake
    assert (str(tmp_path / "dev"), 5, "1g", "4g") == (str(dev.lake), dev.run_rows, dev.spark.memory, plain.spark.memory)
    assert {name: str(tmp_path / "lake" / name) for name in ("trades", "rates")} == plain.sources
    assert {"trades": str(tmp_path / "samples" / "trades"), "rates": str(tmp_path / "lake" / "rates")} == dev.sources


def test_an_environment_that_is_none_is_an_error(tmp_path: Path) -> None:
    """
    The error has the names that there are; settings of every environment are checked, whichever is asked for.
    """
    file = tmp_path / config.FILE_NAME
    for text, env, words in (
        (ENVIRONMENTS, "dve", "there is no [env.dve]; it has 'dev', 'prod'"),
        ("", "dev", "there is no [env.dev]; it has none"),
        ("[env]\ndev = 3", None, "'env' must have a table for each environment, such as [env.dev]"),
        ("[env.dev]\nlaek = 'x'", None, "[env.dev]: unknown key 'laek'; the nearest known one is 'lake'"),
        ("[env.dev.env.prod]\nlake = 'x'", None, "[env.dev]: unknown key 'env'"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError) as refused:
            config.read(file, environ={}, env=env)
        assert words in str(refused.value)
    file.unlink()
    with pytest.raises(ConfigError, match=r"there is no \[env.dev\]"):
        config.read(environ={}, directory=tmp_path, env="dev")


@pytest.mark.parametrize("text", ["soon", "0 days", "1 fortnight", "-1 day", "P1D"])
def test_a_sample_is_a_length(tmp_path: Path, text: str) -> None:
    """
    Of time, or a number in the unit of a column; an environment has its own.
    """
    assert [
        f"{tmp_path / config.FILE_NAME}: 'source.sample' must be a length such as '1 day' or '6 hours', found {text!r}"
    ] == problems(tmp_path, f'source.sample = "{text}"')
    (tmp_path / config.FILE_NAME).write_text('[env.dev]\nsource.sample = "1 day"\n')
    assert ["", "1 day"] == [config.read(environ={}, directory=tmp_path, env=name).sample for name in (None, "dev")]
    assert "500" == read(tmp_path, "", MATERIALIZER_SOURCE_SAMPLE="500").sample
