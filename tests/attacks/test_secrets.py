"""Attacks on credentials: each is planted in a setting, an address or an error, and searched for in all that comes out."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from materializer.adapters.cli import main
from materializer.adapters.cli.output import JsonOutput, TextOutput, show_logs
from materializer.api import Materializer
from materializer.config import Config, MetricsConfig, OpenLineageConfig, SparkConfig
from materializer.errors import DefinitionError, MaterializerError, StorageError
from materializer.errors.base import know, masked
from materializer.errors.definitions import Problem
from materializer.lake import store_settings
from materializer.services.activity import log
from materializer.spark.runtime.connect import place_of
from tests import tables
from tests.adapters import page_lakes
from tests.attacks.table import attack

SECRET = "Pl4nt3d/S3cr+t=="
WORD = "Pl4nt3dW0rd"
ADDRESSES = [
    f"s3://AKIAKEY:{SECRET}@bucket/lake",
    f"s3a://AKIAKEY:{SECRET}@bucket/lake",
    f"abfss://c@account.dfs.core.windows.net/lake?sv=2022&sig={WORD}%2B&se=2030",
    f"abfss://c:{WORD}@account.dfs.core.windows.net/lake",
    f"gs://user:{WORD}@bucket/lake",
    f"https://user:{WORD}@host/lake",
    f"https://{WORD}@host/lake",
    f"https://host/lake?a=1&token={WORD}",
    f"https://host/lake?X-Amz-Signature={WORD}&X-Amz-Credential={WORD}",
    f"jdbc:postgresql://host/db?user=me&password={WORD}",
    f"postgresql://me:{WORD}@host:5432/db",
    f"sc://host:443/;use_ssl=true;token={WORD}",
]
OPTIONS = [
    f"spark.hadoop.fs.s3a.secret.key={WORD}",
    f"--conf spark.hadoop.fs.azure.account.key.x.dfs.core.windows.net={WORD}",
    f"spark.hadoop.fs.azure.sas.c.account.blob.core.windows.net={WORD}",
    f"Map(fs.s3a.secret.key -> {WORD}, fs.s3a.endpoint -> x)",
    f"{{'aws_secret_access_key': '{WORD}', 'aws_region': 'eu'}}",
    json.dumps({"account_key": WORD}),
    f'("spark.hadoop.fs.s3a.session.token", "{WORD}")',
    f"aws_session_token: {WORD}",
    f"Authorization: Bearer {WORD}.{WORD}",
    f"Authorization: Basic {WORD}",
    f"OPENLINEAGE_API_KEY={WORD}",
    f"fs.s3a.secret.key=/{WORD}",
    f"fs.s3a.secret.key='two words {WORD}'",
]
HARMLESS = [
    "unexpected token: FROM at 1:7, near 'token'",
    "s3://bucket/lake/part-0.parquet, s3a://bucket/x and abfss://c@account.dfs.core.windows.net/t",
    "http://127.0.0.1:8080/v1/metrics?x=1",
    "reads column 'secret' as int, but in its source it is bigint",
    "the sum of key_signature is wrong: 3, design=4, assign: x",
    "[2013-12-01T03:00:00Z, 2013-12-01T05:00:00Z) at 10:30, a@b.example",
    "spark.sql.shuffle.partitions=8 and aws_region=eu-west-1",
    "AWS_ACCESS_KEY_ID is not set",
    "basic operations of a bearer",
]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Settings of a test are none of the next one."""
    yield
    know("settings", {})
    store_settings.configure({})


def has_secret(text: str) -> bool:
    """Whether something that was planted is in a text."""
    return any(part in text for part in (SECRET, WORD, SECRET.replace("/", "%2F")))


@attack(
    "Secrets",
    "an error, a hint or its values quote an address with a password, a token or a signature",
    "masked when the error is made: in str, text and JSON, for the command line and for Python",
)
@pytest.mark.parametrize("text", [*ADDRESSES, *OPTIONS])
def test_no_error_has_a_secret(text: str) -> None:
    """
    Nothing of the text around it is lost.
    """
    said = f"cannot read {text} today"
    error = StorageError(said, hint=said, wrote=said, place=said)
    error.follows("one file was written")
    found = [str(error), repr(error), json.dumps(error.as_json())]
    for make in (TextOutput, JsonOutput):
        err = io.StringIO()
        make(io.StringIO(), err).fail(error)
        found.append(err.getvalue())

    assert not [each for each in found if has_secret(each)]
    assert str(error).startswith("cannot read ")
    assert str(error).endswith(" today")
    assert "***" in str(error)


@attack("Secrets", "a text without a secret looks a little like one", "it is shown as it is")
@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """
    Tokens of a parser, columns named so, ports, containers.
    """
    assert masked(text) == text


@attack("Secrets", "a long text of almost-secrets keeps the mask busy", "its time follows its length")
@pytest.mark.parametrize(
    "piece", ["token", "s3://a:", "token=", "://", "a.secret.", "'password':", "Bearer ", "x", "_-.sig"]
)
def test_no_text_takes_long(piece: str) -> None:
    """
    The time follows the length.
    """
    began = time.process_time()
    masked(piece * (200_000 // len(piece)))

    assert time.process_time() - began < 5


@attack("Secrets", "a definition quotes an address with a password", "masked in each problem")
@pytest.mark.parametrize("text", ADDRESSES)
def test_no_problem_of_a_definition_has_a_secret(text: str) -> None:
    """
    As text and as JSON.
    """
    error = DefinitionError([Problem("definition.unknown-table", f"there is no table {text}", f"name {text}")])

    assert not has_secret(str(error) + json.dumps(error.as_json()))


@attack(
    "Secrets",
    "a bug's traceback quotes an address with a password",
    "masked in the text and in the JSON of the command line",
)
@pytest.mark.parametrize("text", [*ADDRESSES, *OPTIONS])
def test_no_traceback_has_a_secret(text: str) -> None:
    """
    Also the error behind it.
    """
    error = RuntimeError(text)
    error.__cause__ = OSError(text)

    assert has_secret("".join(traceback.format_exception(error)))
    for make in (TextOutput, JsonOutput):
        err = io.StringIO()
        make(io.StringIO(), err).crash(error)
        assert "RuntimeError" in err.getvalue()
        assert not has_secret(err.getvalue())


@attack("Secrets", "a warning that is logged quotes one", "masked, in our log and where the command line prints it")
@pytest.mark.parametrize("text", [ADDRESSES[0], ADDRESSES[5], OPTIONS[0]])
def test_no_warning_has_a_secret(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """
    Also of a library.
    """
    log([f"cannot reach {text}"])
    show_logs()
    assert logging.lastResort is not None
    shown = logging.lastResort.format(logging.LogRecord("library", 30, "", 1, "cannot reach %s", (text,), None))

    assert "cannot reach" in caplog.text
    assert not has_secret(caplog.text + shown)


@attack(
    "Secrets",
    "an error quotes a value of the environment or of the settings without its name",
    "masked wherever it stands",
)
@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "OPENLINEAGE_API_KEY", "DB_PASSWORD"]
)
def test_a_known_secret_is_found_without_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of the environment, and of settings that were read.
    """
    text = f"the store says: {SECRET} is no key"
    assert masked(text) == text
    monkeypatch.setenv(name, SECRET)
    assert not has_secret(masked(text))
    monkeypatch.delenv(name)
    know("settings", {"spark.hadoop.fs.s3a.secret.key": SECRET})
    assert not has_secret(masked(text))
    know("settings", {}, [f"sc://host/;token={WORD}", f"https://me:{WORD}@host/"])
    assert not has_secret(masked(f"invalid: {WORD}"))


def test_the_working_directory_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A shell calls it `PWD`, which sounds like a password; an error that hides it cannot be followed.
    """
    monkeypatch.setenv("PWD", str(tmp_path))
    text = f"there is no Delta table at '{tmp_path}/trades'"
    assert text == masked(text)
    monkeypatch.setenv("PWD", SECRET)
    assert not has_secret(masked(f"the store says: {SECRET} is no key"))


@attack(
    "Secrets",
    "the configuration is printed, or an address of Spark Connect is shown",
    "without options, addresses and storage",
)
def test_the_configuration_shows_none() -> None:
    """
    Its form in Python, and what `doctor` says of a server.
    """
    config = Config(
        storage={"aws_secret_access_key": SECRET},
        spark=SparkConfig(remote=f"sc://host/;token={WORD}", options={"spark.hadoop.fs.s3a.secret.key": SECRET}),
        openlineage=OpenLineageConfig(url=f"https://u:{WORD}@host/"),
        metrics=MetricsConfig(endpoint=f"https://host/?token={WORD}"),
    )

    assert not has_secret(repr(config))
    assert place_of(f"sc://me:{WORD}@host:443/;token={WORD}") == "sc://***@host:443"


SETTINGS = f"""
[sources]
trades = "TRADES"
[storage]
aws_secret_access_key = "{SECRET}"
azure_storage_sas_token = "sv=1&sig={WORD}"
[spark.options]
"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"
"spark.hadoop.fs.azure.account.key.x" = "{WORD}"
[openlineage]
url = "http://me:{WORD}@127.0.0.1:9/?token={WORD}"
[metrics]
endpoint = "http://me:{WORD}@127.0.0.1:9/v1/metrics?token={WORD}"
"""
OF_SPARK = {"apply", "verify"}
COMMANDS = [
    ["apply", "SQL"],
    ["plan", "hourly"],
    ["refresh", "hourly"],
    ["status"],
    ["status", "hourly"],
    ["history", "hourly"],
    ["show", "hourly"],
    ["verify", "hourly"],
    ["doctor"],
    ["policy", "list"],
    ["report", "--out", "PLACE/report"],
    ["backup", "PLACE/backup"],
    ["versions", "hourly"],
    ["repair", "hourly"],
    ["maintain", "hourly"],
]


@attack(
    "Secrets",
    "secrets stand in [storage], [spark.options], and addresses of listeners that do not answer; every command is run",
    "none is printed, and none is in the lake, its journal, the report or a backup",
)
def test_no_command_and_no_file_has_a_secret_of_the_settings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """
    In text and in JSON, and by a Spark that was started with such options; the warning about a listener is there, and so is the report.
    """
    tables.append(tmp_path / "trades", page_lakes.trades(range(2)))
    out = tmp_path / "out"
    out.mkdir()
    config = tmp_path / "materializer.toml"
    config.write_text(SETTINGS.replace("TRADES", str(tmp_path / "trades")))
    sql = tmp_path / "hourly.sql"
    sql.write_text(
        "CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS hour, sum(price) AS total FROM trades GROUP BY ALL"
    )
    printed = ""
    shared = ["--lake", str(out / "lake"), "--config", str(config)]
    for command in COMMANDS:
        words = [word.replace("SQL", str(sql)).replace("PLACE", str(out)) for word in command]
        for more in ([], ["--json"]):
            if command[0] in OF_SPARK and not more:  # in a process of its own, which ends with its Spark
                run = [sys.executable, "-m", "materializer", *words, *shared]
                found = subprocess.run(run, capture_output=True, text=True, check=False)
                said = found.stdout + found.stderr
            elif command[0] not in {*OF_SPARK, "backup"} or not more:
                main([*words, *shared, *more])
                said = "".join(capfd.readouterr())
            assert said, words
            printed += said
    files = [path for path in out.rglob("*") if path.is_file()]

    assert "was not notified" in printed
    assert "equal" in printed
    assert {"report", "backup", "lake"} <= {path.relative_to(out).parts[0] for path in files}
    assert not has_secret(printed)
    assert [] == [path for path in files if has_secret(path.read_bytes().decode("latin-1"))]


@attack(
    "Secrets",
    "an address with a password is given in place of a lake, a source, a folder, a file",
    "refused without the password",
)
@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "words",
    [
        ["status", "--lake", "ADDRESS"],
        ["new", "ADDRESS", "--yes"],
        ["apply", "ADDRESS"],
        ["backup", "ADDRESS"],
        ["status", "--config", "ADDRESS"],
        ["plan", "ADDRESS"],
        ["report", "--out", "/dev/null/ADDRESS"],
        ["status", "--ADDRESS"],
    ],
    ids=" ".join,
)
def test_an_address_in_an_argument_is_refused_without_its_password(
    tmp_path: Path, words: list[str], address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    In text and in JSON.
    """
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--json"]):
        status = main([*(word.replace("ADDRESS", address) for word in words), *more])
        found = capfd.readouterr()
        assert status != 0 or found.out
        assert not has_secret(found.out + found.err)


@attack("Secrets", "a setting has a wrong form, and a secret in it", "the error does not show its value")
@pytest.mark.parametrize(
    "text",
    [
        f'lake = "s3://k:{SECRET}@bucket/x"',
        f'[sources]\ntrades = "https://me:{WORD}@host/t"\nother = 7',
        f'[storage]\naws_secret_access_key = ["{SECRET}"]',
        f'[spark]\nremote = "https://h/;token={WORD}"',
        f'[spark]\noptions = ["{WORD}"]',
        f'[spark.options]\n"spark.hadoop.fs.s3a.secret.key" = ["{WORD}"]',
        f'[spark.options]\n"spark.sql.files.ignoreCorruptFiles" = "true"\n"spark.password" = "{WORD}"',
        f'[openlineage]\nurl = "me:{WORD}@host"',
        f'[metrics]\nendpoint = ["https://me:{WORD}@host"]',
        f'[storage]\naws_secret_access_key = "{SECRET}',
    ],
)
def test_a_wrong_setting_is_refused_without_its_value(
    tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    Also where the file is no TOML.
    """
    (tmp_path / "materializer.toml").write_text(text)
    for command in ("status", "doctor"):
        main([command, "--config", str(tmp_path / "materializer.toml")])
        found = capfd.readouterr()

        assert not has_secret(found.out + found.err)


def fails(message: object, version: int) -> None:
    """Fail as a handler that calls a server does."""
    raise RuntimeError(
        f"cannot reach https://me:{WORD}@host/?token={WORD} with Bearer {WORD}{WORD} at {version} {message!s:.0}"
    )


@attack(
    "Secrets",
    "code of the user fails with a secret in its error: an output handler, while events go to a file",
    "masked in the error, in the event, in the metrics, in the journal and in `history`",
)
@pytest.mark.usefixtures("spark")
def test_errors_of_handlers_reach_no_event_and_no_file_with_a_secret(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """
    The event of the failed refresh is there.
    """
    tables.append(tmp_path / "trades", page_lakes.trades(range(2)))
    out = tmp_path / "out"
    (out / "metrics").mkdir(parents=True)
    config = Config(
        sources={"trades": str(tmp_path / "trades")},
        storage={"aws_secret_access_key": SECRET},
        openlineage=OpenLineageConfig(file=out / "events.jsonl"),
        metrics=MetricsConfig(textfile=out / "metrics"),
    )
    lake = Materializer(out / "lake", config=config, output_handlers={"fails": fails})
    lake.apply(
        "CREATE MATERIALIZED VIEW hourly TBLPROPERTIES ('output_handler' = 'fails', 'output.change_feed' = 'true') "
        "AS SELECT time_bucket('1 hour', ts) AS hour, sum(price) AS total FROM trades GROUP BY ALL"
    )
    with pytest.raises(MaterializerError) as found:
        lake.refresh("hourly", executor="local")
    said = str(found.value) + json.dumps(found.value.as_json()) + str(lake.history("hourly", None))
    files = [path for path in out.rglob("*") if path.is_file()]

    assert "cannot reach https://" in str(found.value)
    assert "errorMessage" in (out / "events.jsonl").read_text()
    assert not has_secret(said + "".join(capfd.readouterr()))
    assert [] == [path for path in files if has_secret(path.read_bytes().decode("latin-1"))]
