"""Texts without secrets: the one place that knows what a secret looks like.

An error, a warning and an event quote what libraries say, and those quote addresses, options and settings. Every
:class:`~materializer.errors.base.MaterializerError` masks its texts when it is made, so what quotes it is clean, too. Others
call :func:`~materializer.errors.base.masked`, which also knows the settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

MASK: Final = "***"
_WORD: Final = (
    r"(?:[\w.-]{0,64}(?:secret|passw(?:or)?d|token|signature|api[_.-]?key|access[_.-]?key(?![_.-]?id)|account[_.-]?key|"
    r"private[_.-]?key|credential)[\w.-]{0,64}|(?:[\w.-]{0,64}[_.-])?(?:sig|sas|pwd)(?:[_.-][\w.-]{0,64})?)"
)
"""The name of an option that holds a secret. Quantifiers have bounds, so that no text takes long."""
_NAME: Final = re.compile(_WORD, re.IGNORECASE)
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), shown)
    for pattern, shown in (
        # s3://KEY:SECRET@bucket; a secret of S3 may have a slash, and a bucket has no port
        (r"\b((?:s3[an]?|gs|az|abfss?|wasbs?):/{1,2})[^\s'\"/:@<>]{0,200}:[^\s'\"<>]{0,1000}@", rf"\1{MASK}@"),
        # https://TOKEN@host, https://user:password@host
        (r"\b(https?:/{1,2})[^\s'\"/@<>]{1,1000}@", rf"\1{MASK}@"),
        # anything://user:password@host; a path has one slash of an address
        (r"(\b[a-z][\w+.-]{1,20}:/{1,2})[^\s'\"/:@<>]{0,200}:[^\s'\"/<>]{0,1000}@", rf"\1{MASK}@"),
        # sig=… in a query, spark.hadoop.fs.s3a.secret.key=… among options
        (rf"(?<![\w.-])({_WORD}=)(?:'[^']*'|\"[^\"]*\"|[^\s&;,'\"<>()]+)", rf"\1{MASK}"),
        # the same as JSON, as a dictionary of Python, as a pair
        (rf"(?<![\w.-])((['\"]){_WORD}\2\s*(?:[:=,]|->)\s*)(['\"])[^'\"]+\3", rf"\1\3{MASK}\3"),
        # fs.s3a.secret.key -> …, aws_secret_access_key: …
        (rf"(?<![\w.-])((?=[\w-]*[._]){_WORD}\s*(?:->|:)\s*)(?!{re.escape(MASK)})[^\s'\",;(){{}}]{{4,}}", rf"\1{MASK}"),
        # Authorization: Bearer …
        (r"(\bauthorization['\"]?\s*[:=]\s*['\"]?(?:\w+\s+)?|\bbearer\s+)[\w+/=.~-]{8,}", rf"\1{MASK}"),
    )
)
_MARK: Final = re.compile(
    r"@|secret|passw|token|signature|key|credential|sig|sas|pwd|authorization|bearer", re.IGNORECASE
)
"""What every text has in which a pattern finds something."""
_CLOUDS: Final = ("aws_", "azure_", "google_")
_NO_VALUE: Final = ("_file", "_path", "_dir", "_directory", "_uri", "_url", "_id")
"""How a variable of the environment ends that says where a secret is."""
_SHORTEST: Final = 8
"""A value below this length would be found in any text; of a store's setting, which is no word, four."""
_QUERY: Final = re.compile(rf"[?&;]{_WORD}=([^&;\s]+)", re.IGNORECASE)
_USER: Final = re.compile(r"://([^\s/@]*):([^\s/]*)@")


@lru_cache(1024)
def is_secret(name: str) -> bool:
    """Whether an option or a setting of this name holds a secret.

    Examples:
        >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("aws_region"), is_secret("spark.sql.shuffle.partitions")
        (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


def without_secrets(text: str, settings: Iterable[tuple[Mapping[str, str], Iterable[str]]] = ()) -> str:
    """Return a text without secrets: those of settings and of the environment, and what looks like one in an address or an option.

    Args:
        text: The text.
        settings: Settings by name, of which those count whose names are of secrets, with addresses that may hold one.

    Examples:
        >>> without_secrets("s3://key:a/b@bucket/t, abfss://c@a.dfs.core.windows.net/t?sv=1&sig=abc&se=2, https://user:pw@host/x")
        's3://***@bucket/t, abfss://c@a.dfs.core.windows.net/t?sv=1&sig=***&se=2, https://***@host/x'
        >>> without_secrets("spark.hadoop.fs.s3a.secret.key=abc, {'password': 'x y'}, unexpected token: FROM")
        "spark.hadoop.fs.s3a.secret.key=***, {'password': '***'}, unexpected token: FROM"
    """
    return masked_by(text, known_secrets(settings))


def known_secrets(settings: Iterable[tuple[Mapping[str, str], Iterable[str]]]) -> list[str]:
    """Return the secrets of settings and of the environment, the longest first; see :func:`without_secrets`."""
    known = set(_of_environment())
    for values, addresses in settings:
        known |= {value for key, value in values.items() if is_secret(key) and len(value) >= 4}
        known |= {found for each in addresses for found in _secrets_of(each) if len(found) >= _SHORTEST}
    return sorted(known, key=len, reverse=True)


def masked_by(text: str, known: Iterable[str]) -> str:
    """Return a text without known secrets, and without what looks like one."""
    for value in known:
        text = text.replace(value, MASK)
    if _MARK.search(text):
        for pattern, shown in _PATTERNS:
            text = pattern.sub(shown, text)
    return text


@lru_cache(4)
def _secret_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if is_secret(name.lower()))


def _of_environment() -> Iterator[str]:
    for name in _secret_names(tuple(os.environ)):
        key, value = name.lower(), os.environ.get(name, "")
        is_place = key.endswith(_NO_VALUE) or os.path.exists(value)  # noqa: PTH110 - PWD is no secret
        if len(value) >= (4 if key.startswith(_CLOUDS) else _SHORTEST) and not is_place:
            yield value


def _secrets_of(address: str) -> Iterator[str]:
    for found in _QUERY.findall(address):
        yield from {found, unquote(found)}
    for _, password in _USER.findall(address):
        yield from {password, unquote(password)}
