"""The Spark functions that a definition may call, and the groups of functions that it may not call.

A function is allowed when its result depends on its arguments alone. Names are Spark's, in lower case. Spark checks the types
and the numbers of arguments when a definition is applied.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from materializer.core.aggregates import registry


def names_in(text: str) -> frozenset[str]:
    """Return the words of *text*."""
    return frozenset(text.split())


BUCKETS: Final = names_in("window time_bucket session_window window_time")

SCALARS: Final = names_in("""
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp expm1
    factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint
    round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket
    nanvl isnan

    ascii base64 bit_length btrim char char_length character_length chr collate collation concat concat_ws contains decode
    elt encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 make_valid_utf8 lcase left len
    length levenshtein locate lower lpad ltrim luhn_check mask octet_length overlay position printf quote regexp
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace
    reverse right rlike rpad rtrim sentences soundex space split split_part startswith substr substring substring_index
    to_binary to_char to_number to_varchar translate trim try_to_binary try_to_number try_validate_utf8 ucase unbase64
    upper validate_utf8 like ilike

    add_months convert_timezone date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour
    last_day make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
    make_ym_interval minute month monthname months_between next_day quarter second timestamp timestamp_micros
    timestamp_millis timestamp_seconds timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz
    to_timestamp_ntz to_unix_timestamp to_time to_utc_timestamp trunc try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros unix_millis
    unix_seconds unix_timestamp weekday weekofyear year

    coalesce equal_null if ifnull isnotnull isnull nullif nullifzero nvl nvl2 typeof zeroifnull case

    bigint binary boolean cast decimal dec numeric double float int smallint string tinyint try_cast
    varchar

    from_csv from_json from_xml get_json_object is_variant_null json_array_length json_object_keys parse_json
    schema_of_csv schema_of_json schema_of_variant schema_of_xml to_csv to_json to_variant_object to_xml try_parse_json try_variant_get variant_get
    parse_url try_parse_url url_decode url_encode try_url_decode xpath xpath_boolean xpath_double xpath_float xpath_int
    xpath_long xpath_number xpath_short xpath_string

    aggregate array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
    array_join array_max array_min array_position array_prepend array_remove array_repeat array_size array_sort
    array_union arrays_overlap arrays_zip cardinality element_at exists filter flatten forall get map map_concat
    map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
    named_struct reduce sequence size slice sort_array str_to_map struct transform transform_keys transform_values
    try_element_at zip_with

    crc32 hash md5 sha sha1 sha2 xxhash64 aes_decrypt try_aes_decrypt

    bit_count bit_get getbit bitmap_bit_position bitmap_bucket_number bitmap_count shiftleft shiftright
    shiftrightunsigned hll_sketch_estimate hll_union theta_sketch_estimate
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
""")

NON_DETERMINISTIC: Final = names_in("""
    rand random randn randstr uniform uuid shuffle aes_encrypt monotonically_increasing_id spark_partition_id now curdate
    current_date current_timestamp current_time current_timezone current_user current_catalog current_database
    current_schema current_role localtimestamp session_user user version input_file_name input_file_block_start
    input_file_block_length getdate sysdate ai_query http_request sleep current_path
""")

BARE_NON_DETERMINISTIC: Final = names_in("current_date current_timestamp current_time current_user localtimestamp")
"""Functions that Spark calls without parentheses, unless a column has the name."""

MOVING_LITERALS: Final = names_in("now today yesterday tomorrow")
"""Texts that `TIMESTAMP '…'` and `DATE '…'` turn into the current time."""

REFLECTION: Final = names_in("java_method reflect try_reflect")

GENERATORS: Final = names_in("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer collations
""")

WINDOW_ONLY: Final = names_in("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value")

AGGREGATES: Final = registry.names() | {registry.ROLLUP}

_REFUSED_FOR: Final = {
    "it gives a sketch, whose bytes depend on how rows come together": "hll_sketch_agg hll_union_agg"
    " kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_merge_agg_bigint"
    " kll_merge_agg_double kll_merge_agg_float approx_top_k_accumulate approx_top_k_combine",
    "its result depends on how rows come together": "histogram_numeric approx_top_k",
    "whether its result depends on how rows come together is not known": "theta_union_agg theta_intersection_agg",
    "it gives a bitmap, which has a meaning beside the numbers of its bitmaps only": "bitmap_construct_agg bitmap_or_agg bitmap_and_agg",
    "it describes the form of values and aggregates none": "schema_of_variant_agg",
    "it is about several groupings of one query": "grouping grouping_id",
}
UNSUPPORTED_AGGREGATES: Final = MappingProxyType({n: why for why, names in _REFUSED_FOR.items() for n in names.split()})
"""By the name of an aggregate of Spark that a definition may not call: why."""


CHECKS: Final = names_in("assert_true raise_error")
"""Functions of Spark that fail on purpose."""

OTHERS: Final = CHECKS | names_in("""
    approx_top_k_estimate from_avro from_protobuf kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
    kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float make_time python_worker_logs range schema_of_avro sql_keywords st_asbinary st_geogfromwkb
    st_geomfromwkb st_setsrid st_srid theta_difference theta_intersection theta_union time time_diff time_trunc to_avro
    to_protobuf try_to_time
""")
"""Further functions of Spark that a definition may not call."""


_ELSEWHERE: Final = {
    "approx_distinct": "approx_count_distinct",
    "arg_max": "max_by",
    "arg_min": "min_by",
    "argmax": "max_by",
    "argmin": "min_by",
    "group_concat": "string_agg",
    "iff": "if",
    "safe_divide": "try_divide",
}
"""Functions of other systems, each with the one of Spark that gives the same."""


SHORT: Final = 3
"""Letters of a name in which one wrong letter is corrected, if few names are as near."""


def nearest(name: str, known: frozenset[str] | list[str] | tuple[str, ...], *, cutoff: float = 0.6) -> str:
    """Return the known name most similar to *name* as ``did you mean `x`?``, or "" without a similar one.

    Examples:
        >>> nearest("coalesc", SCALARS)
        'did you mean `coalesce`?'
    """
    by_lower = {k.lower(): k for k in sorted(known)}
    found = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=cutoff)
    return f"did you mean `{by_lower[found[0]]}`?" if found else ""


def misspelled(name: str, python: frozenset[str]) -> str:
    """Return which function a name that Spark does not have is a misspelling of, or "".

    Two functions have two results, so only a slip is corrected: letters in another order, or one more or less in a long name. A digit
    is no slip.

    Examples:
        >>> misspelled("count_distinct", frozenset()), misspelled("smu", frozenset()), misspelled("coalesc", frozenset())
        ('', 'did you mean `sum`?', 'did you mean `coalesce`?')
        >>> misspelled("sun", frozenset()), misspelled("averge", frozenset())
        ('did you mean `sum` or `sin`?', 'did you mean `avg`?')
        >>> misspelled("sum0", frozenset())
        ''
    """
    if name in _ELSEWHERE:
        return f"did you mean `{_ELSEWHERE[name]}`?"
    every = {k for k in SCALARS | BUCKETS | AGGREGATES | python if _digits(k) == _digits(name)}
    if nearest(name, ("average",), cutoff=0.85):
        return "did you mean `avg`?"
    if len(name) == SHORT and (near := sorted((k for k in every if _differ_by_a_letter(k, name)), key=_not_aggregate)):
        return f"did you mean {' or '.join(f'`{k}`' for k in near)}?" if len(near) <= SHORT else ""
    swapped = sorted(k for k in every if sorted(k.lower()) == sorted(name))
    return nearest(name, swapped or [k for k in every if abs(len(k) - len(name)) <= 1], cutoff=0.6 if swapped else 0.85)


def misspelled_as(name: str) -> str:
    """Return the function that a name is a misspelling of, or "".

    Examples:
        >>> misspelled_as("cuont"), misspelled_as("count")
        ('count', '')
    """
    if (
        name
        in SCALARS
        | BUCKETS
        | AGGREGATES
        | WINDOW_ONLY
        | GENERATORS
        | NON_DETERMINISTIC
        | OTHERS
        | UNSUPPORTED_AGGREGATES.keys()
    ):
        return ""
    return misspelled(name, frozenset()).removeprefix("did you mean `").removesuffix("`?")


def _digits(name: str) -> list[str]:
    return [letter for letter in name if letter.isdigit()]


def _differ_by_a_letter(known: str, name: str) -> bool:
    return len(known) == len(name) and sum(a != b for a, b in zip(known.lower(), name, strict=True)) == 1


def _not_aggregate(name: str) -> tuple[bool, str]:
    return name not in AGGREGATES, name
