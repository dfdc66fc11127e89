package sqltext

import (
	"fmt"
	"slices"
	"strings"
)

// readMySQL is read for MariaDB and MySQL, where most statements that are no query end the transaction, also those that
// fail. So a handler may send only those that are known not to.
func (s *Findings) readMySQL(l lexer) (queries bool) {
	var tokens []token
	for s.Control == nil {
		t := l.next()
		if t.kind != endOfText && !t.isSymbol(';') {
			tokens = append(tokens, t)
			continue
		}
		if begins := slices.IndexFunc(tokens, func(t token) bool { return !t.isSymbol('(') }); begins >= 0 {
			queries = s.statementOfMySQL(tokens[begins:]) || queries
		}
		if tokens = tokens[:0]; t.kind == endOfText {
			break
		}
	}
	if l.executable {
		s.Control = fmt.Errorf("%w. Refused: %s", ErrControl, executableComment)
	}
	return queries
}

const executableComment = "a comment that the server may run"

// statementOfMySQL adds what one statement says.
func (s *Findings) statementOfMySQL(tokens []token) (queries bool) {
	first, second, last := tokens[0], at(tokens, 1), tokens[len(tokens)-1]
	if why := controlsOfMySQL(tokens); why != "" {
		s.Control = fmt.Errorf("%w. Refused: %s", ErrControl, why)
		return false
	}
	switch {
	case first.is("SAVEPOINT"):
		s.Marks = second.name()
	case first.is("ROLLBACK"):
		s.Undoes = last.name()
	case first.is("CALL"):
		s.Calls = true // it may end the transaction
	}
	switch {
	case writesNothing[first.name()], first.is("USE"), first.is("HANDLER"):
	case reading[first.name()], first.is("DESCRIBE"), first.is("DESC"), first.is("CHECKSUM"), first.is("HELP"):
		queries = true
	default:
		s.Writes = true
	}
	if leavingOfMySQL[first.name()] {
		s.Residue = append(s.Residue, strings.ToUpper(first.text))
		return queries
	}
	for i, t := range tokens {
		switch next := at(tokens, i+1); {
		case t.isSymbol(':') && next.isSymbol('='), t.is("INTO") && next.isSymbol('@'):
			s.Residue = append(s.Residue, "@") // a variable of the session
		case t.kind != word && t.kind != quotedName, !calls(tokens, i), isColumnList(tokens, i), isReadOnly(MySQL, tokens, i):
		default:
			s.Residue = append(s.Residue, t.name())
		}
	}
	return queries
}

// at is the token i; none behind the last one.
func at(tokens []token, i int) token {
	if i < len(tokens) {
		return tokens[i]
	}
	return token{}
}

var (
	// withinOfMySQL are the statements that do not end a transaction, whatever comes behind the first word.
	withinOfMySQL = words(`select insert update delete replace with values table show explain describe desc do checksum help
		handler use call signal`)
	// leavingOfMySQL may leave a setting, a table or a lock on the connection.
	leavingOfMySQL = words("set use handler call create")
	// settingsOfMySQL may be set by a handler: the connection is closed behind it. Any other setting may change how the
	// attempt commits.
	settingsOfMySQL = words(`lock_wait_timeout innodb_lock_wait_timeout max_statement_time max_execution_time
		group_concat_max_len optimizer_switch sort_buffer_size join_buffer_size tmp_table_size max_heap_table_size time_zone
		cte_max_recursion_depth max_recursive_iterations`)
)

// controlsOfMySQL says what is wrong with a statement; "" for nothing.
func controlsOfMySQL(tokens []token) string {
	first, second, third := tokens[0], at(tokens, 1), at(tokens, 2)
	is := strings.ToUpper(first.text)
	if first.kind != word {
		return "a statement that begins with no word" // a label, say
	}
	switch is {
	case "SAVEPOINT":
		return reserved(tokens[1:])
	case "RELEASE":
		return reserved(behindSavepoint(append(tokens[1:], token{})))
	case "ROLLBACK":
		if i := slices.IndexFunc(tokens, func(t token) bool { return t.is("TO") }); i == 1 || i == 2 && second.is("WORK") {
			return reserved(behindSavepoint(append(tokens[i+1:], token{})))
		}
	case "SET":
		return setsOfMySQL(tokens[1:])
	case "CREATE", "DROP":
		if second.is("TEMPORARY") && third.is("TABLE") {
			return ""
		}
	case "ANALYZE": // MariaDB runs the statement, and explains it
		if second.is("FORMAT") || second.is("WITH") || second.is("SELECT") || second.is("INSERT") || second.is("REPLACE") ||
			second.is("UPDATE") || second.is("DELETE") {
			return ""
		}
	case "LOAD":
		if second.is("DATA") || second.is("XML") {
			return ""
		}
	}
	if withinOfMySQL[first.name()] {
		return ""
	}
	return is
}

// setsOfMySQL says what is wrong with the assignments of a SET; "" for nothing.
func setsOfMySQL(tokens []token) string {
	depth := 0
	begins := true
	for i, t := range tokens {
		switch {
		case t.isSymbol('('):
			depth++
		case t.isSymbol(')'):
			depth--
		case depth == 0 && t.isSymbol(','):
			begins = true
			continue
		case begins:
			if name := settingOfMySQL(tokens[i:]); name != "" && !settingsOfMySQL[name] {
				return "SET of " + name + ", which may change how the attempt commits, or stay on the connection"
			}
			begins = false
		}
	}
	return ""
}

// settingOfMySQL is the name of the setting that an assignment begins with; "" where it is a variable of the app's.
func settingOfMySQL(tokens []token) string {
	names := slices.DeleteFunc(slices.Clone(tokens[:min(len(tokens), 6)]), func(t token) bool { return t.kind == symbol })
	system := at(tokens, 0).isSymbol('@') && at(tokens, 1).isSymbol('@')
	switch scope := at(names, 0); {
	case at(tokens, 0).isSymbol('@') && !system:
		return ""
	case scope.is("SESSION"), scope.is("LOCAL"):
		return at(names, 1).name()
	default:
		return scope.name()
	}
}

// readOnlyOfMySQL are functions that change nothing and leave nothing, and words that can stand before a parenthesis.
var readOnlyOfMySQL = words(`
	if isnull interval elt field find_in_set locate mid ucase lcase space insert strcmp soundex sounds quote make_set export_set
	format conv bin oct ord crc32 sha sha1 sha2 md5 aes_encrypt aes_decrypt compress uncompress to_base64 from_base64
	regexp_instr regexp_like truncate rand greatest least bit_count convert cast binary character_length
	curdate curtime current_date sysdate utc_date utc_time utc_timestamp date_add date_sub adddate subdate addtime subtime
	datediff timediff timestampdiff timestampadd date_format time_format str_to_date from_unixtime unix_timestamp from_days
	to_days to_seconds
	year quarter month week weekday weekofyear yearweek day dayofmonth dayofweek dayofyear dayname monthname hour
	minute second microsecond last_day makedate maketime period_add period_diff sec_to_time time_to_sec convert_tz
	json_unquote json_contains json_contains_path json_keys json_length json_depth json_search json_value json_query
	json_arrayagg json_objectagg json_merge_patch json_merge_preserve json_array_append json_exists json_overlaps
	inet_aton inet_ntoa inet6_aton inet6_ntoa uuid uuid_short uuid_to_bin bin_to_uuid uuid_v4 uuid_v7 is_uuid
	database schema user current_user session_user system_user connection_id last_insert_id row_count found_rows charset
	collation coercibility benchmark sleep name_const std natural_sort_key
	index key partition against match double real fixed tinyint mediumint year datetime signed unsigned nchar nvarchar
	varbinary`)
