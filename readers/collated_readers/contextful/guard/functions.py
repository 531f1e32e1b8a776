"""Which of the engine's functions a caller may use: a table by category, of DuckDB 2.0.1's own catalog.

Allowed is what computes from its arguments alone, and the clock and the dice, which the read face names
among what its statements call (readface, `volatile-bypasses`). All else is refused, whether a category
names it or nobody has heard of it. A test holds both tables to the engine: each of its scalars, aggregates,
window functions and macros stands in exactly one of them.

How much a function makes is not bounded here: `repeat`, `range` or `printf` can ask for any size, as a
join can, so the worker that runs them has a limit of memory and can be killed.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ALLOWED", "REFUSED", "VOLATILE", "is_allowed", "why_refused"]

_ALLOWED: Mapping[str, str] = {
    # what operators and literals are written as in the engine's tree
    "operators": """
        !__postfix !~~ !~~* % & && * ** + - ->> / // < <-> << <= <=> <@ = != > >= >> @ @> ^ ^@ xor | || ~ ~~
        ~~* ~~~ add divide fdiv fmod if ilike_escape like_escape list_value mod multiply
        not_ilike_escape not_like_escape nullif row struct_pack subtract switch unlist unnest
        """,
    "aggregates": """
        any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
        arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or
        bit_xor bitstring_agg bool_and bool_or corr count count_if count_star countif covar_pop covar_samp
        decimal_average entropy favg first fsum geomean geometric_mean group_concat histogram histogram_exact
        kahan_sum kurtosis kurtosis_pop last list listagg lttb mad max max_by mean median min min_by mode
        product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2
        regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness stddev stddev_pop stddev_samp
        string_agg sum sumkahan var_pop var_samp variance wavg weighted_avg
        """,
    "window functions": """
        cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank
        rank_dense row_number
        """,
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh binom bit_count cbrt ceil ceiling cos cosh cot
        decimal_division degrees equi_width_bins even exp factorial floor gamma gcd greatest
        greatest_common_divisor isfinite isinf isnan lcm least least_common_multiple lgamma ln log log10
        log2 nextafter pi pow power radians round round_even roundbankers sign signbit sin sinh sqrt tan
        tanh trunc
        """,
    "text": """
        array_extract array_to_string array_to_string_comma_default ascii bar base64 bin bit_length
        char_length character_length chr concat concat_ws contains damerau_levenshtein decode editdist3
        encode ends_with format format_bytes formatreadabledecimalsize formatreadablesize from_base64
        from_binary from_hex hamming hash hex instr jaccard jaro_similarity jaro_winkler_similarity lcase
        left left_grapheme len length length_grapheme levenshtein lower lpad ltrim md5 md5_number
        md5_number_lower md5_number_upper mismatches nfc_normalize octet_length ord overlay parse_dirname
        parse_dirpath parse_filename parse_formatted_bytes parse_path path_join pg_size_pretty position
        prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
        regexp_replace regexp_split_to_array regexp_split_to_table repeat replace reverse right
        right_grapheme rpad rtrim sha1 sha256 split split_part starts_with str_split str_split_regex
        string_split string_split_regex string_to_array strip_accents strlen strpos substr substring
        substring_grapheme suffix to_base to_base64 to_binary to_hex translate trim ucase unbin unhex unicode
        upper url_decode url_encode
        """,
    "bits": "bit_position bitstring get_bit set_bit",
    "time": """
        age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day
        dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era
        hour isodow isoyear julian last_day make_date make_time make_timestamp make_timestamp_ms
        make_timestamp_ns make_timestamptz microsecond millennium millisecond minute month monthname
        nanosecond normalized_interval quarter second strftime strptime time_bucket timezone timezone_hour
        timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia
        to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years
        try_strptime week weekday weekofyear year yearweek
        """,
    "lists": """
        aggregate apply array_aggr array_aggregate array_append array_apply array_cat array_concat
        array_contains array_cosine_distance array_cosine_similarity array_cross_product array_distance
        array_distinct array_dot_product array_filter array_grade_up array_has array_has_all array_has_any
        array_indexof array_inner_product array_intersect array_length array_negative_dot_product
        array_negative_inner_product array_pop_back array_pop_front array_position array_prepend
        array_push_back array_push_front array_reduce array_resize array_reverse array_reverse_sort
        array_select array_slice array_sort array_transform array_unique array_value array_where array_zip
        filter flatten generate_series generate_subscripts grade_up invoke list_aggr list_aggregate
        list_any_value list_append list_apply list_approx_count_distinct list_avg list_bit_and list_bit_or
        list_bit_xor list_bool_and list_bool_or list_cat list_concat list_contains list_cosine_distance
        list_cosine_similarity list_count list_distance list_distinct list_dot_product list_element
        list_entropy list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any
        list_histogram list_indexof list_inner_product list_intersect list_kurtosis list_kurtosis_pop
        list_last list_mad list_max list_median list_min list_mode list_negative_dot_product
        list_negative_inner_product list_pack list_position list_prepend list_product list_reduce
        list_resize list_reverse list_reverse_sort list_select list_sem list_skewness list_slice list_sort
        list_stddev_pop list_stddev_samp list_string_agg list_sum list_transform list_unique list_var_pop
        list_var_samp list_where list_zip range reduce
        """,
    "maps, structs, unions and enumerations": """
        cardinality element_at enum_code enum_first enum_last enum_range enum_range_boundary map map_concat
        map_contains map_contains_entry map_contains_value map_entries map_extract map_extract_value
        map_from_entries map_keys map_values struct_concat struct_contains struct_extract struct_extract_at
        struct_has struct_indexof struct_insert struct_keys struct_position struct_update struct_values
        union_extract union_tag union_value
        """,
    "JSON and variants": """
        array_to_json from_json from_json_strict json json_array json_array_length json_contains
        json_deep_merge json_exists json_extract json_extract_path json_extract_path_text
        json_extract_string json_group_array json_group_object json_group_structure json_insert json_keys
        json_merge_patch json_merge_patch_diff json_normalize json_object json_pretty json_quote json_remove
        json_replace json_set json_strip_nulls json_structure json_transform json_transform_strict json_type
        json_valid json_value row_to_json to_json variant_array_length variant_contains variant_exists
        variant_extract variant_extract_string variant_group_array variant_group_object variant_keys
        variant_type variant_typeof
        """,
    "types and errors": "alias assert_true can_cast_implicitly error pg_typeof typeof",
    "identifiers": "uuid_extract_timestamp uuid_extract_version",
    # not the same twice, but they read nothing: the read face says that such statements are not cached
    "the clock": """
        ago current_date current_localtime current_localtimestamp get_current_time get_current_timestamp now
        today transaction_timestamp
        """,
    "the dice": "gen_random_uuid random uuid uuidv4 uuidv7",
}

_REFUSED: Mapping[str, str] = {
    "reads the session, its settings or its variables": """
        current_catalog current_connection_id current_database current_query current_query_id current_role
        current_schema current_schemas current_setting current_transaction_id current_user getvariable
        in_search_path inet_client_addr inet_client_port inet_server_addr inet_server_port session_user
        txid_current user version
        """,
    "reads a catalog, or pretends to": """
        col_description format_pg_type format_type get_block_size has_any_column_privilege
        has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege
        has_function_privilege has_language_privilege has_schema_privilege has_sequence_privilege
        has_server_privilege has_table_privilege has_tablespace_privilege index_key map_to_pg_oid
        map_type_id_to_pg_oid obj_description pg_collation_is_visible pg_conf_load_time
        pg_conversion_is_visible pg_function_is_visible pg_get_constraintdef pg_get_expr pg_get_viewdef
        pg_has_role pg_is_other_temp_schema pg_my_temp_schema pg_opclass_is_visible pg_operator_is_visible
        pg_opfamily_is_visible pg_postmaster_start_time pg_table_is_visible pg_ts_config_is_visible
        pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible
        shobj_description
        """,
    "reads or changes what outlives the statement": "currval nextval setseed setval write_log",
    "only passes time": "pg_sleep sleep_ms",
    "reads or plans statements": "json_deserialize_sql json_serialize_plan json_serialize_sql",
    "shows what the engine keeps of its data": "parse_duckdb_log_message stats vector_type",
    "makes types, or values of types that no table has": """
        cast_to_type combine combine_aggr finalize get_type make_type remap_struct replace_type
        st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson st_geomfromwkb
        st_intersects_extent st_setcrs to_aggregate_state variant_bytes_to_variant
        variant_to_parquet_variant vertex_extract
        """,
    "is the engine's own": """
        __between __cast bitstring_byte_comparable constant_or_null create_sort_key
        hive_partition_component icu_sort_key is_histogram_other_bin json_copy_strftime_if_date
        json_copy_strftime_if_timestamp sum_no_overflow timetz_byte_comparable unpivot_list
        variant_comparator variant_normalize
        """,
}

_REFUSED_PREFIXES: Mapping[str, str] = {
    "__internal_": "is the engine's own",
    "collate_": "is the engine's own; write COLLATE",
    "icu_collate_": "is the engine's own; write COLLATE",
}

# The tree writes these two as comparisons; the catalog has them among its functions.
_COMPARISONS = ("is distinct from", "is not distinct from")

ALLOWED: Mapping[str, str] = {
    name: category for category, names in _ALLOWED.items() for name in names.split()
} | dict.fromkeys(_COMPARISONS, "operators")
"""Every function that may be called, in lower case, and its category."""

REFUSED: Mapping[str, str] = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
"""Functions that are known and refused, in lower case, and what each does."""

VOLATILE = frozenset(name for name, category in ALLOWED.items() if category in ("the clock", "the dice"))
"""Allowed functions whose results are not those of the last time."""


def is_allowed(name: str) -> bool:
    """Tell whether a caller may use the function *name*."""
    return name.lower() in ALLOWED


def why_refused(name: str) -> str | None:
    """Return what is known of a function that is refused, None of one that nobody has heard of."""
    lowered = name.lower()
    by_prefix = (why for prefix, why in _REFUSED_PREFIXES.items() if lowered.startswith(prefix))
    return REFUSED.get(lowered) or next(by_prefix, None)
