"""The root of the family: what every error says, and its JSON form."""

from __future__ import annotations

from typing import Any, ClassVar

NOTHING = "nothing was written"


class MaterializerError(Exception):
    """The root of all errors that are not bugs.

    Args:
        message: What happened, lower-case, one sentence, with found and expected.
        hint: The next action, one sentence; the class default when omitted.
        wrote: What had been written before the error; ``"nothing was written"`` by default.
        values: Machine-readable values, shown in the JSON form.
    """

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 70
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, wrote: str = NOTHING, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.wrote = wrote
        self.values = values

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
