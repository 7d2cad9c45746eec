"""Settings of stores: credentials and endpoints, from the environment, each cloud's files and ``[storage]``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from materializer.errors.base import know

SCHEMES: Final = {"s3": "aws_", "az": "azure_", "abfs": "azure_", "abfss": "azure_", "gs": "google_"}
"""Schemes of stores, each with the prefix of its settings."""
_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OTHER_SOURCES: Final = ("aws_web_identity_token_file", "aws_container_credentials_relative_uri")

_configured: dict[str, str] = {}


def configure(settings: Mapping[str, str]) -> None:
    """Set what ``[storage]`` of the configuration says, from now on and for every place of this process."""
    _configured.clear()
    _configured.update({key.lower(): value for key, value in settings.items()})
    know("storage", _configured)


def options_of(scheme: str) -> dict[str, str]:
    """Return the settings of a store that its client does not read from the environment by itself."""
    prefix = SCHEMES[scheme]
    options = {key: value for key, value in _configured.items() if key.startswith(prefix)}
    if prefix != "aws_":
        plain = os.environ.get(f"{prefix}allow_http".upper())
        return ({f"{prefix}allow_http": plain.lower()} if plain else {}) | options
    options = _of_profile() | options
    endpoint = options.get("aws_endpoint_url", os.environ.get("AWS_ENDPOINT_URL", ""))
    return ({"aws_allow_http": "true"} if endpoint.startswith("http://") else {}) | options


def spark_options(scheme: str) -> dict[str, str]:
    """Return the options with which Spark reads and writes a store: the same settings in the words of Hadoop.

    Credentials are not among them, because options are in the command line of a JVM; see :func:`spark_environment`.
    """
    if SCHEMES[scheme] != "aws_":
        return {}
    known = _known(scheme)
    endpoint = known.get("aws_endpoint_url", known.get("aws_endpoint", ""))
    is_virtual = known.get("aws_virtual_hosted_style_request", "").lower() == "true"
    options = {
        "endpoint": endpoint,
        "endpoint.region": known.get("aws_region", known.get("aws_default_region", "")),
        "path.style.access": "true" if endpoint and not is_virtual else "",
        "connection.ssl.enabled": "false" if endpoint.startswith("http://") else "",
    }
    classes = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    return classes | {f"spark.hadoop.fs.s3a.{key}": value for key, value in options.items() if value}


def spark_environment(scheme: str) -> dict[str, str]:
    """Return the environment variables by which Spark finds the credentials of a store."""
    known = _known(scheme) if SCHEMES[scheme] == "aws_" else {}
    return {key.upper(): known[key] for key in _KEYS if key in known}


def _known(scheme: str) -> dict[str, str]:
    return {k.lower(): v for k, v in os.environ.items() if k.startswith("AWS_")} | options_of(scheme)


def environment_of(scheme: str) -> dict[str, str]:
    """Return the environment variables of a store's cloud, which its client reads when it is made."""
    prefix = SCHEMES[scheme].upper()
    return {key: value for key, value in os.environ.items() if key.startswith(prefix)}


def _of_profile() -> dict[str, str]:
    """Return keys and region of the profile in ``~/.aws``; nothing if keys come from elsewhere."""
    env = os.environ
    if any(key in _configured or key.upper() in env for key in (_KEYS[0], *_OTHER_SOURCES)):
        return {}
    import configparser  # noqa: PLC0415 - only for a store

    home, profile = Path("~/.aws").expanduser(), env.get("AWS_PROFILE", "default")
    parser = configparser.ConfigParser(interpolation=None)
    with suppress(OSError, configparser.Error):
        named = (
            env.get("AWS_CONFIG_FILE", home / "config"),
            env.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"),
        )
        parser.read(named)
    found: dict[str, str] = {}
    for section in filter(parser.has_section, (f"profile {profile}", profile)):
        found |= {"aws_region" if k == "region" else k: v for k, v in parser.items(section) if k in {"region", *_KEYS}}
    return {key: value for key, value in found.items() if key.upper() not in env}
