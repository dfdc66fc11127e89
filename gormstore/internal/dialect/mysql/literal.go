package mysql

import (
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var (
	parameter = regexp.MustCompile(`\$(\d+)`)
	list      = regexp.MustCompile(`each\(\$(\d+)\)`)
)

// each are the elements of a JSON array of hexadecimal digits.
func each(value any) string {
	var all []string
	if text, ok := value.(string); !ok || json.Unmarshal([]byte(text), &all) != nil || len(all) == 0 {
		return "NULL" // which nothing equals
	}
	for n, digits := range all {
		raw, err := hex.DecodeString(digits)
		if err != nil {
			return "NULL"
		}
		all[n] = literal(raw)
	}
	return strings.Join(all, ", ")
}

// bind writes the parameters of a statement into it: numbers, and hexadecimal digits, which no sql_mode and no character set
// reads in another way. So a statement is one message: a driver would prepare one with parameters, and close it behind.
func bind(text string, args []any) string {
	if len(args) == 0 {
		return text
	}
	text = list.ReplaceAllStringFunc(text, func(at string) string {
		number, err := strconv.Atoi(list.FindStringSubmatch(at)[1])
		if err != nil || number > len(args) {
			return at
		}
		return each(args[number-1])
	})
	return parameter.ReplaceAllStringFunc(text, func(at string) string {
		number, err := strconv.Atoi(at[1:])
		if err != nil || number < 1 || number > len(args) {
			return at // the server refuses it
		}
		return literal(args[number-1])
	})
}

// literal is a value in SQL.
func literal(value any) string {
	if valuer, ok := value.(driver.Valuer); ok {
		of, err := valuer.Value()
		if err != nil {
			return "no value" // which is no SQL
		}
		value = of
	}
	switch v := value.(type) {
	case nil:
		return "NULL"
	case []byte:
		if v == nil {
			return "NULL"
		}
		return "x'" + hex.EncodeToString(v) + "'"
	case string:
		if v == "" {
			return "''" // of the connection's character set, which has it
		}
		return "_utf8mb4 x'" + hex.EncodeToString([]byte(v)) + "'"
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	switch v := reflect.ValueOf(value); {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return "NULL"
	case v.Kind() == reflect.Pointer:
		return literal(v.Elem().Interface())
	case v.CanInt():
		return strings.TrimSpace(strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	case v.Kind() == reflect.String:
		return literal(v.String())
	}
	return fmt.Sprintf("no value (%T)", value)
}
