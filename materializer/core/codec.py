"""The JSON forms of values, by the fields and types that their classes declare.

A value is an object with its fields in their order. A tuple is a list, an enumeration is its value, and everything else stays
as it is. A decorator of this module gives a class another form; ``Annotated[…, JsonForm(…)]`` gives it to one field. The journal
stores these forms: a change here has to read what every earlier version wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import EllipsisType, MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, MsgspecError, Struct, field
from msgspec.json import Decoder

_DECODER: Final = Decoder()
_T = TypeVar("_T")


class JsonForm(NamedTuple):
    """How values of a type become JSON values, and are made of them again."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_AS_IS: Final = JsonForm(lambda value: value, lambda data: data)
MOST_READERS: Final = 100
"""Of each class, for how many sets of keys it is remembered how objects are read."""
_FORMS: Final[dict[type, Callable[[], JsonForm]]] = {}
"""How to make the form of each class that a decorator gave one; made on first use, when all its types are known."""


def as_json(value: Any) -> Any:
    """Return the JSON form of a value.

    Examples:
        >>> from msgspec import Struct
        >>> @json_fields(omits=["unit"])
        ... class Size(Struct):
        ...     value: int
        ...     unit: str = "m"
        >>> as_json(Size(3)), from_json(Size, {"value": 3})
        ({'value': 3}, Size(value=3, unit='m'))
    """
    kind: Any = type(value)
    return _form_of(kind).encode(value)


def from_json(cls: type[_T], data: Any) -> _T:
    """Return the value of a class that :func:`as_json` wrote.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: If *data* is not the form of such a value.
    """
    kind: Any = cls
    value: _T = _form_of(kind).decode(data)
    return value


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text, as the standard library reads it, in half of its time.

    Raises:
        ValueError, RecursionError: As ``json.loads``.
    """
    try:
        return _DECODER.decode(text)
    except (MsgspecError, UnicodeError):  # only the standard library reads infinity and halves of characters
        return json.loads(text)


def json_fields(
    *,
    order: Collection[str | EllipsisType] = (...,),
    names: Mapping[str, str] = MappingProxyType({}),
    later: Collection[str] | None = None,
    omits: Collection[str] = (),
) -> Callable[[type[_T]], type[_T]]:
    """Return a decorator for the form of a class whose values are objects.

    Args:
        order: The fields that are written, in order; ``...`` stands for the fields that are not listed.
        names: The names of fields in JSON, where they differ.
        later: The fields that may be missing, because the first versions did not write them; unknown fields are ignored. None
            lets fields with a default be missing, and makes an unknown field an error.
        omits: Fields that are not written while they have their default.
    """

    def decorate(cls: type[_T]) -> type[_T]:
        _FORMS[cls] = lambda: _object(cls, order, names, later, omits)
        return cls

    return decorate


def json_list(cls: type[_T]) -> type[_T]:
    """Give a class the form of a list of its fields, which are JSON values themselves."""
    made: Any = cls
    read = attrgetter(*made.__struct_fields__)
    _FORMS[cls] = lambda: JsonForm(lambda value: list(read(value)), lambda data: made(*data))
    return cls


def json_methods(cls: type[_T]) -> type[_T]:
    """Give a class the form that its methods ``as_json`` and ``from_json`` write and read."""
    _FORMS[cls] = lambda: JsonForm(cls.as_json, cls.from_json)  # type: ignore[attr-defined]
    return cls


@cache
def field_forms(cls: Any) -> Mapping[str, JsonForm]:
    """Return the form of each field of a class."""
    hints = get_type_hints(cls, include_extras=True)
    return {name: _form_of(hints[name]) for name in cls.__struct_fields__}


@cache
def _form_of(kind: Any) -> JsonForm:
    """Return the form of a class, or of a type in an annotation."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in _FORMS:
        return _FORMS[kind]()
    if origin is Annotated:
        return next(extra for extra in args if isinstance(extra, JsonForm))
    if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
        return _optional(*(_form_of(arg) for arg in args if arg is not NoneType))
    if origin is tuple:
        return _items(_form_of(args[0])) if args[-1] is Ellipsis else _items_of(list(map(_form_of, args)))
    if origin in (dict, Mapping):
        return _values(_form_of(args[1]))
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        known = {each.value: each for each in kind}
        return JsonForm(attrgetter("value"), lambda data: known.get(data) or kind(data))
    return _AS_IS


def _optional(form: JsonForm) -> JsonForm:
    encode, decode = form
    return JsonForm(
        lambda value: None if value is None else encode(value),
        lambda data: None if data is None else decode(data),
    )


def _items(form: JsonForm) -> JsonForm:
    if form is _AS_IS:
        return JsonForm(list, tuple)
    encode, decode = form
    return JsonForm(lambda value: [encode(item) for item in value], lambda data: tuple([decode(item) for item in data]))


def _items_of(forms: list[JsonForm]) -> JsonForm:
    if all(form is _AS_IS for form in forms):
        return JsonForm(list, partial(_exactly, len(forms)))
    return JsonForm(
        lambda value: [form.encode(item) for form, item in zip(forms, value, strict=True)],
        lambda data: tuple([form.decode(item) for form, item in zip(forms, data, strict=True)]),
    )


def _exactly(count: int, data: Any) -> tuple[Any, ...]:
    found = tuple(data)
    if len(found) != count:
        msg = f"{len(found)} items instead of {count}"
        raise ValueError(msg)
    return found


def _values(form: JsonForm) -> JsonForm:
    if form is _AS_IS:
        return _AS_IS
    encode, decode = form
    return JsonForm(
        lambda value: {key: encode(item) for key, item in value.items()},
        lambda data: {key: decode(item) for key, item in data.items()},
    )


class _Sample(Struct):
    made: list[None] = field(default_factory=list)


_MADE: Final = type(_Sample.__struct_defaults__[0])
"""What stands for a default that is made anew for each value."""


def _defaults(cls: Any) -> dict[str, Any]:
    """Return the default of each field that has one, without evaluating types as ``fields`` of the library does."""
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    found = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return {name: default for name, default in found if default is not NODEFAULT}


def _reader(
    cls: Any,
    keys: tuple[str, ...],
    forms: Mapping[str, JsonForm],
    names: Mapping[str, str],
    later: Collection[str] | None,
) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return a function that makes values of a class of the objects with certain keys; None if these are unknown or too few.

    It is one expression, ``cls(data["a"], decode_b(data["b"]), default_c, …)``: a loop over the fields takes twice as long.
    """
    if cls.__match_args__ != cls.__struct_fields__:  # some fields have to be named
        return None
    known: dict[str, Any] = {"cls": cls}
    defaults = _defaults(cls)
    arguments, read = [], 0
    for at, name in enumerate(cls.__struct_fields__):
        key = names.get(name, name)
        if key in keys:
            read += 1
            known[f"decode_{at}"] = forms[name].decode
            arguments.append(f"data[{key!r}]" if forms[name] is _AS_IS else f"decode_{at}(data[{key!r}])")
        elif name not in defaults or (later is not None and name not in later):
            return None
        elif isinstance(defaults[name], _MADE):
            known[f"make_{at}"] = defaults[name].factory
            arguments.append(f"make_{at}()")
        else:
            known[f"default_{at}"] = defaults[name]
            arguments.append(f"default_{at}")
    if read != len(keys):
        return None
    made: Callable[[Mapping[str, Any]], Any] = eval(f"lambda data: cls({', '.join(arguments)})", known)  # noqa: S307 - of names in this package alone
    return made


def _object(
    cls: Any,
    order: Collection[str | EllipsisType] = (...,),
    names: Mapping[str, str] = MappingProxyType({}),
    later: Collection[str] | None = None,
    omits: Collection[str] = (),
) -> JsonForm:
    forms = field_forms(cls)
    others = [name for name in forms if name not in order]
    written = [name for listed in order for name in (others if listed is ... else [listed])]
    parts = [(name, names.get(name, name), forms[name], forms[name] is _AS_IS) for name in written]
    changed = [(name, form.decode) for name, form in forms.items() if form is not _AS_IS]
    required = forms.keys() - (forms.keys() if later is None else later)
    defaults = {
        name: default.factory() if isinstance(default, _MADE) else default
        for name, default in _defaults(cls).items()
        if name in omits
    }

    def encode(value: Any) -> dict[str, Any]:
        data = {}
        for name, key, form, is_as_it_is in parts:
            item = getattr(value, name)
            if name not in defaults or item != defaults[name]:
                data[key] = item if is_as_it_is else form.encode(item)
        return data

    readers: dict[tuple[str, ...], Callable[[Mapping[str, Any]], Any] | None] = {}
    """What reads objects that have certain keys; None if :func:`decode_any` does."""

    def decode(data: Mapping[str, Any]) -> Any:
        keys = tuple(data)
        try:
            read = readers[keys]
        except KeyError:
            read = _reader(cls, keys, forms, names, later)
            if len(readers) < MOST_READERS:
                readers[keys] = read
        return decode_any(data) if read is None else read(data)

    def decode_any(data: Mapping[str, Any]) -> Any:
        if later is not None and (names or not required <= data.keys() <= forms.keys()):
            return cls(**{n: form.decode(data[key]) for n, key, form, _ in parts if key in data or n not in later})
        values = dict(data)
        for name, read in changed:
            if name in values:
                values[name] = read(values[name])
        return cls(**values)

    return JsonForm(encode, decode)
