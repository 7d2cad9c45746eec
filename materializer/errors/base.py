"""The root of the family: what every error says, and its JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

NOTHING = "nothing was written"
UNKNOWN = "what had been written is not known; the next command finds out"

_settings: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {}


def know(room: str, settings: Mapping[str, str], addresses: Iterable[str] = ()) -> None:
    """Set the settings of a room of the configuration, whose secrets no text has from now on.

    Args:
        room: Which settings; those of before are forgotten.
        settings: Values by name; those count whose names are of secrets.
        addresses: URLs, whose passwords and tokens count.
    """
    _settings[room] = settings, tuple(addresses)


def masked(text: str) -> str:
    """Return a text without secrets; see :func:`~materializer.errors.masking.without_secrets`."""
    from materializer.errors.masking import without_secrets  # noqa: PLC0415 (only with errors)

    return without_secrets(text, _settings.values())


class MaterializerError(Exception):
    """The root of all errors that are not bugs. Its texts have no secrets, whatever it was made of.

    Args:
        message: What happened, lower-case, one sentence, with found and expected.
        hint: The next action, one sentence; the class default when omitted.
        wrote: What the step that failed had written. A command puts in front what it had done before (:meth:`follows`).
            Classes of errors that are raised before a step can write say so themselves; all others are given it.
        values: Machine-readable values, shown in the JSON form.
    """

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 70
    default_hint: ClassVar[str] = ""
    default_wrote: ClassVar[str] = UNKNOWN

    def __init__(self, message: str, *, hint: str | None = None, wrote: str | None = None, **values: Any) -> None:
        from materializer.errors.masking import known_secrets, masked_by  # noqa: PLC0415 (only with errors)

        known = known_secrets(_settings.values())
        message = masked_by(message, known)
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else masked_by(hint, known)
        self.wrote = self.default_wrote if wrote is None else masked_by(wrote, known)
        self.values = {k: masked_by(value, known) if isinstance(value, str) else value for k, value in values.items()}

    def follows(self, done: str) -> None:
        """Put *done*, which the same command wrote before the failed step, in front of ``wrote``."""
        self.wrote = f"{done}; then {self.wrote}"

    def as_json(self) -> dict[str, Any]:
        """Return the documented JSON form: code, message, hint, wrote, values."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "wrote": self.wrote,
            "values": {
                k: v if isinstance(v, (int, float, bool, type(None))) else str(v) for k, v in self.values.items()
            },
        }


class UnwrittenError(MaterializerError):
    """The root of errors that are raised before their step writes anything."""

    default_wrote: ClassVar[str] = NOTHING
