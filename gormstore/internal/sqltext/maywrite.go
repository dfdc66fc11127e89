package sqltext

import (
	"slices"
	"strings"
)

// MayWrite returns the reason why a text may write; "" if it only reads. It cannot see what views, operators, casts and
// triggers do. In doubt the text may write; a caller who knows that it only reads marks it with Outside.
func MayWrite(d Dialect, text string) string {
	for l := range readings(d, text) {
		if why := l.mayWrite(); why != "" {
			return why
		}
	}
	return ""
}

// Locks returns the words by which a text locks the rows that it reads, FOR UPDATE for instance; "" if it locks none.
func Locks(d Dialect, text string) string {
	for l := range readings(d, text) {
		var last [3]token
		for t := l.next(); t.kind != endOfText; t = l.next() {
			last = [3]token{last[1], last[2], t}
			switch {
			case last[1].is("FOR") && (t.is("UPDATE") || t.is("SHARE")):
				return "FOR " + strings.ToUpper(t.text)
			case last[0].is("FOR") && last[1].is("NO") && t.is("KEY"):
				return "FOR NO KEY UPDATE"
			case last[0].is("LOCK") && last[1].is("IN") && t.is("SHARE"):
				return "LOCK IN SHARE MODE"
			case last[0].is("FOR") && last[1].is("KEY") && t.is("SHARE"):
				return "FOR KEY SHARE"
			}
		}
	}
	return ""
}

func (l lexer) mayWrite() string {
	var tokens []token
	for {
		t := l.next()
		if t.kind != endOfText && !t.isSymbol(';') {
			tokens = append(tokens, t)
			continue
		}
		if why := statementMayWrite(l.dialect, tokens); why != "" {
			return why
		}
		if tokens = tokens[:0]; t.kind == endOfText && l.executable {
			return executableComment
		} else if t.kind == endOfText {
			return ""
		}
	}
}

func statementMayWrite(d Dialect, tokens []token) string {
	begins := slices.IndexFunc(tokens, func(t token) bool { return !t.isSymbol('(') })
	if begins < 0 {
		return ""
	}
	switch first := tokens[begins]; {
	case first.kind == literal: // it may be a value that no log should have
		return "a text that begins with a value"
	case first.kind != word || !reading[first.name()]:
		return first.text
	}
	for i, t := range tokens {
		switch {
		case t.kind != word && t.kind != quotedName:
		case t.kind == word && writing[t.name()] && !locksRows(tokens[:i+1]):
			return t.text
		case calls(tokens, i) && !isReadOnly(d, tokens, i):
			return "the function " + t.text
		}
	}
	return ""
}

var (
	// reading are the statements that may only read.
	reading = words(`select with values table show explain`)
	// writing are the words of a write within such a statement: in a common table expression, SELECT ... INTO, after EXPLAIN.
	writing = words(`insert update delete merge into call truncate create execute refresh`)
)

// locksRows reports whether the last token is the UPDATE of SELECT ... FOR UPDATE, which locks rows and writes none.
func locksRows(tokens []token) bool {
	n := len(tokens) - 1
	return tokens[n].is("UPDATE") && (n >= 1 && tokens[n-1].is("FOR") ||
		n >= 3 && tokens[n-1].is("KEY") && tokens[n-2].is("NO") && tokens[n-3].is("FOR"))
}

// calls reports whether a function is called at the token i: a name before a parenthesis, which is neither a keyword nor a
// name that is defined there.
func calls(tokens []token, i int) bool {
	if i+1 == len(tokens) || !tokens[i+1].isSymbol('(') {
		return false
	}
	var before, two token
	if i > 0 {
		before = tokens[i-1]
	}
	if i > 1 {
		two = tokens[i-2]
	}
	switch t := tokens[i]; {
	case before.isSymbol('.'): // after a schema a keyword is a name: shop.order(7)
		return true
	case t.kind == word && keywords[t.name()]:
		return false
	case t.kind == word && infix[t.name()]:
		return !endsOperand(tokens[:i])
	case t.is("OVER") || t.is("FILTER"):
		return !before.isSymbol(')') // count(*) OVER (...)
	case t.is("BY"):
		return !before.is("GROUP") && !before.is("ORDER") && !before.is("PARTITION")
	case t.is("SETS"):
		return !before.is("GROUPING")
	case t.is("MATERIALIZED"):
		return !before.is("AS") && !before.is("NOT")
	case before.isSymbol(':') && two.isSymbol(':'): // a type: x::numeric(10, 2)
		return false
	case before.is("AS"), before.is("WITH"), before.is("RECURSIVE"): // a table's name, before the names of its columns
		return false
	case before.isSymbol(','):
		return !definesTable(tokens[i+1:])
	}
	return true
}

// endsOperand reports whether an operator can follow the last token. NOT may be in between.
func endsOperand(tokens []token) bool {
	n := len(tokens) - 1
	if n > 0 && tokens[n].is("NOT") {
		n--
	}
	if n < 0 {
		return false
	}
	switch t := tokens[n]; t.kind {
	case word:
		return t.is("END") || !keywords[t.name()] && !t.is("BY")
	case symbol:
		return t.isSymbol(')') || t.isSymbol(']') || t.isSymbol('?')
	default:
		return true
	}
}

// definesTable reports whether a common table expression is defined: (columns) AS (SELECT ...).
func definesTable(tokens []token) bool {
	depth := 0
	for i, t := range tokens {
		switch {
		case t.isSymbol('('):
			depth++
		case t.isSymbol(')'):
			depth--
		}
		if depth > 0 {
			continue
		}
		rest := tokens[i+1:]
		if len(rest) == 0 || !rest[0].is("AS") {
			return false
		}
		rest = rest[1:]
		for len(rest) > 0 && (rest[0].is("NOT") || rest[0].is("MATERIALIZED")) {
			rest = rest[1:]
		}
		return len(rest) > 2 && rest[0].isSymbol('(') && (rest[1].isSymbol('(') || rest[1].is("SELECT") || rest[1].is("WITH") ||
			rest[1].is("VALUES") && rest[2].isSymbol('(')) // values may be a column's name: book(7) AS (values int)
	}
	return false
}

// isReadOnly reports whether the function that is called at the token i only reads: it is called by its name alone, or with
// pg_catalog before it, and is in the list.
func isReadOnly(d Dialect, tokens []token, i int) bool {
	if i > 0 && tokens[i-1].isSymbol('.') && (i < 2 || tokens[i-2].name() != "pg_catalog") {
		return false
	}
	name := tokens[i].name()
	return readOnly[name] || d == MySQL && readOnlyOfMySQL[name]
}

// keywords can stand before a parenthesis. No function has such a name without quotes.
var keywords = words(`all and any array as between case cast distinct else end except exists fetch from having in
	intersect lateral limit not offset on only operator or row select some then to union using values when where with group
	order`)

// infix are operators whose names a function can have too: they are operators only after an operand.
var infix = words(`glob ilike is join like match`)

// readOnly are functions of PostgreSQL and SQLite that change nothing and hold no lock, and types that can stand before a
// parenthesis.
var readOnly = words(`
	count sum avg min max total bool_and bool_or every bit_and bit_or bit_xor array_agg string_agg group_concat
	json_agg jsonb_agg json_object_agg jsonb_object_agg json_group_array json_group_object jsonb_group_array
	jsonb_group_object xmlagg stddev stddev_pop stddev_samp variance var_pop var_samp corr covar_pop covar_samp
	regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope percentile_cont percentile_disc mode grouping
	rollup cube any_value median

	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value

	coalesce nullif greatest least ifnull iif num_nulls num_nonnulls typeof likely unlikely

	abs ceil ceiling floor round trunc mod div power pow sqrt cbrt exp ln log log10 log2 sign pi degrees radians
	sin cos tan asin acos atan atan2 sinh cosh tanh factorial gcd lcm scale trim_scale min_scale width_bucket
	random randomblob zeroblob

	lower upper initcap trim btrim ltrim rtrim length char_length character_length octet_length bit_length substring
	substr position strpos instr overlay replace translate concat concat_ws left right lpad rpad repeat reverse
	split_part format printf ascii chr unicode hex unhex to_hex md5 sha224 sha256 sha384 sha512 encode decode
	quote quote_ident quote_literal quote_nullable starts_with normalize unaccent similarity word_similarity
	regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
	regexp_split_to_table regexp_substr string_to_array string_to_table convert_from convert_to
	to_char to_date to_number to_timestamp to_tsvector to_tsquery plainto_tsquery phraseto_tsquery websearch_to_tsquery
	ts_rank ts_rank_cd ts_headline setweight

	now clock_timestamp statement_timestamp transaction_timestamp timeofday current_time current_timestamp localtime
	localtimestamp date_trunc date_part date_bin extract age make_date make_time make_timestamp make_timestamptz
	make_interval justify_days justify_hours justify_interval isfinite date time datetime julianday strftime unixepoch
	timediff timezone

	array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions
	array_prepend array_remove array_replace array_to_string array_upper cardinality unnest generate_series
	generate_subscripts isempty lower_inc lower_inf upper_inc upper_inf range_merge

	to_json to_jsonb row_to_json array_to_json json_build_array json_build_object jsonb_build_array jsonb_build_object
	json_object jsonb_object json_array jsonb_array json_array_length jsonb_array_length json_array_elements
	jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_each jsonb_each json_each_text
	jsonb_each_text json_extract jsonb_extract json_extract_path jsonb_extract_path json_extract_path_text
	jsonb_extract_path_text json_object_keys jsonb_object_keys json_populate_record jsonb_populate_record
	json_populate_recordset jsonb_populate_recordset json_to_record jsonb_to_record json_to_recordset
	jsonb_to_recordset json_typeof jsonb_typeof json_type json_valid json_quote json_insert json_set json_remove
	json_replace json_patch json_tree json_strip_nulls jsonb_strip_nulls jsonb_set jsonb_insert jsonb_pretty
	jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first json jsonb

	current_database current_schema current_schemas current_setting version pg_typeof pg_backend_pid pg_is_in_recovery
	pg_column_size pg_table_size pg_relation_size pg_total_relation_size pg_database_size pg_size_pretty to_regclass
	to_regtype format_type has_table_privilege pg_get_constraintdef pg_get_indexdef pg_get_expr col_description
	obj_description pg_postmaster_start_time inet_server_addr inet_server_port sqlite_version changes
	last_insert_rowid total_changes pragma_table_info pragma_table_list pragma_index_list pragma_index_info
	pragma_foreign_key_list pragma_database_list
	gen_random_uuid uuid_generate_v4 uuidv4 uuidv7 row_security_active

	numeric decimal dec varchar char character varying bpchar bit timestamp timestamptz timetz interval float text
	int int2 int4 int8 integer bigint smallint bool boolean`)

func words(of string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(of) {
		all[w] = true
	}
	return all
}
