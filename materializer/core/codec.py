"""The JSON forms of values, by the fields and types that their classes declare.

A value is an object with its fields in their order. A tuple is a list, an enumeration is its value, and everything else stays
as it is. A decorator of this module gives a class another form; ``Annotated[…, JsonForm(…)]`` gives it to one field. The journal
stores these forms: a change here has to read what every earlier version wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from operator import attrgetter, itemgetter
from types import EllipsisType, MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")


class JsonForm(NamedTuple):
    """How values of a type become JSON values, and are made of them again."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


_AS_IS: Final = JsonForm(lambda value: value, lambda data: data)
MOST_PLANS: Final = 100
"""Of each class, for how many sets of keys it is remembered how objects are read."""
_FORMS: Final[dict[type, Callable[[], JsonForm]]] = {}
"""How to make the form of each class that a decorator gave one; made on first use, when all its types are known."""


def as_json(value: Any) -> Any:
    """Return the JSON form of a value.

    Examples:
        >>> from dataclasses import dataclass
        >>> @json_fields(omits=["unit"])
        ... @dataclass
        ... class Size:
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
    read = attrgetter(*(field.name for field in fields(made)))
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
    return {field.name: _form_of(hints[field.name]) for field in fields(cls)}


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
    if is_dataclass(kind):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return JsonForm(lambda value: value.value, kind)
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


class _Plan(NamedTuple):
    """How the objects that have certain keys become values of a class.

    Args:
        read: Returns what stands at these keys, in the order of the fields.
        changed: The places, among these, of values that are decoded, and how.
        missing: The places, among all fields, of those that no key stands for, and what makes their defaults.
    """

    read: Callable[[Any], tuple[Any, ...]]
    changed: list[tuple[int, Callable[[Any], Any]]]
    missing: list[tuple[int, Callable[[], Any]]]


def _plan_of(
    cls: Any,
    keys: tuple[str, ...],
    forms: Mapping[str, JsonForm],
    names: Mapping[str, str],
    later: Collection[str] | None,
) -> _Plan | None:
    """Return how the objects that have *keys* are read; None if they have unknown or too few ones."""
    present: list[str] = []
    changed, missing = [], []
    for at, field in enumerate(fields(cls)):
        key = names.get(field.name, field.name)
        if key in keys:
            if forms[field.name] is not _AS_IS:
                changed.append((len(present), forms[field.name].decode))
            present.append(key)
        elif later is not None and field.name not in later:
            return None
        elif field.default_factory is not MISSING:
            missing.append((at, field.default_factory))
        elif field.default is not MISSING:
            missing.append((at, partial(_same, field.default)))
        else:
            return None
        if field.kw_only:
            return None
    return _Plan(itemgetter(*present), changed, missing) if len(present) == len(keys) > 1 else None


def _same(value: _T) -> _T:
    return value


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
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(cls)
        if field.name in omits
    }

    def encode(value: Any) -> dict[str, Any]:
        data = {}
        for name, key, form, is_as_it_is in parts:
            item = getattr(value, name)
            if name not in defaults or item != defaults[name]:
                data[key] = item if is_as_it_is else form.encode(item)
        return data

    plans: dict[tuple[str, ...], _Plan | None] = {}
    """How objects that have certain keys are read; None if :func:`decode_any` reads them."""

    def decode(data: Mapping[str, Any]) -> Any:
        keys = tuple(data)
        try:
            plan = plans[keys]
        except KeyError:
            plan = _plan_of(cls, keys, forms, names, later)
            if len(plans) < MOST_PLANS:
                plans[keys] = plan
        if plan is None:
            return decode_any(data)
        values = list(plan.read(data))
        for at, convert in plan.changed:
            values[at] = convert(values[at])
        for at, make in plan.missing:
            values.insert(at, make())
        return cls(*values)

    def decode_any(data: Mapping[str, Any]) -> Any:
        if later is not None and (names or not required <= data.keys() <= forms.keys()):
            return cls(**{n: form.decode(data[key]) for n, key, form, _ in parts if key in data or n not in later})
        values = dict(data)
        for name, read in changed:
            if name in values:
                values[name] = read(values[name])
        return cls(**values)

    return JsonForm(encode, decode)
