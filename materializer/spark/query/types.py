"""The types that a table of ours may hold."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as st

_UNSTORABLE = (
    st.NullType,
    st.DayTimeIntervalType,
    st.YearMonthIntervalType,
    st.CalendarIntervalType,
    st.VariantType,
    st.TimeType,
)


def is_storable(of: st.DataType) -> bool:
    """Return whether a table that every reader can read may hold values of a type."""
    return not any(isinstance(inner, _UNSTORABLE) or _is_collated(inner) for inner in within(of))


def _is_collated(of: st.DataType) -> bool:
    return isinstance(of, st.StringType) and not of.isUTF8BinaryCollation()


def within(of: st.DataType) -> Iterator[st.DataType]:
    """Yield a type and the types of all values nested in it."""
    yield of
    match of:
        case st.ArrayType():
            yield from within(of.elementType)
        case st.MapType():
            yield from within(of.keyType)
            yield from within(of.valueType)
        case st.StructType():
            for field in of.fields:
                yield from within(field.dataType)
