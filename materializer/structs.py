"""What the values of this package share. A value is a ``Struct`` of msgspec: made in less time than a dataclass, and its class, too."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, cast

from msgspec import Struct, StructMeta
from msgspec.structs import force_setattr


class _AbstractMeta(StructMeta, ABCMeta):
    pass


def written_signature(cls: type[Struct]) -> Signature:
    """Return the parameters of a class, with annotations as they are written: not all names in them need be loaded."""
    written: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        written |= vars(base).get("__annotations__", {})
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    first, kind = len(names) - len(defaults), Parameter.POSITIONAL_OR_KEYWORD
    return Signature(
        [
            Parameter(
                name,
                kind,
                annotation=written[name],
                default=defaults[at - first] if at >= first else Parameter.empty,
            )
            for at, name in enumerate(names)
        ]
    )


class _LateMeta(StructMeta):
    @property
    def __signature__(self) -> Signature:
        return written_signature(self)  # type: ignore[arg-type]  # it is the class of structs


class LateStruct(Struct, frozen=True, metaclass=_LateMeta):
    """A value with fields of types whose modules are loaded only where they are needed; ``help()`` names these types."""


class AbstractStruct(Struct, frozen=True, metaclass=_AbstractMeta):
    """A value whose methods may be abstract."""


class ComparedInPart:
    """A value of which some fields do not count when it is compared; a base before ``Struct``."""

    __slots__ = ()
    _UNCOMPARED: ClassVar[frozenset[str]]
    """The names of these fields."""
    __struct_fields__: ClassVar[tuple[str, ...]]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__struct_fields__ if name not in self._UNCOMPARED])


class Hidden(str):
    """A text that may hold a secret. Tools that print the values of attributes show its ``repr``, which is not the text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


def _hidden(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _hidden(each) for key, each in value.items()}
    return Hidden(value) if isinstance(value, str) else value


class PrintedInPart:
    """A value of which some fields are not printed, because they may hold a secret; a base before ``Struct``.

    What is printed of these fields by others than the value itself is hidden, too.
    """

    __slots__ = ()
    _UNPRINTED: ClassVar[frozenset[str]]
    """The names of these fields."""
    __struct_fields__: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        for name in self._UNPRINTED:
            force_setattr(cast("Struct", self), name, _hidden(getattr(self, name)))

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self._UNPRINTED)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __rich_repr__(self) -> Any:
        yield from ((name, getattr(self, name)) for name in self.__struct_fields__ if name not in self._UNPRINTED)


def as_dict(value: Struct) -> dict[str, Any]:
    """Return the fields of a value by their names; values inside it become dictionaries, too."""
    return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}


def _plain(value: Any) -> Any:
    match value:
        case Struct():
            return as_dict(value)
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*map(_plain, value))
        case list() | tuple():
            return type(value)(map(_plain, value))
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case _:
            return value
