package core

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/wire"
)

func keyHeader(lines ...string) http.Header { return http.Header{wire.HeaderKey: lines} }

const someUUID = "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c"

// CONTRACT K-1
func TestParseKeyMissing(t *testing.T) {
	for name, header := range map[string]http.Header{
		"no header":   {},
		"nil header":  nil,
		"no line":     keyHeader(),
		"empty":       keyHeader(""),
		"only spaces": keyHeader(" \t "),
		"another one": {"Idempotency-Keys": {"k"}},
	} {
		t.Run(name, func(t *testing.T) {
			key, problem := parseKey(header, wire.HeaderKey, AnyKey)
			require.NotNil(t, problem)
			require.Equal(t, CodeKeyMissing, problem.Code)
			require.Equal(t, http.StatusBadRequest, problem.Status)
			require.Equal(t, "the header Idempotency-Key is required", problem.Detail)
			require.Empty(t, key)
		})
	}
}

// CONTRACT K-2, K-3
func TestParseKeyValid(t *testing.T) {
	for _, tt := range []struct{ name, value, key string }{
		{"bare uuid", someUUID, someUUID},
		{"quoted uuid", `"` + someUUID + `"`, someUUID},
		{"one character", "k", "k"},
		{"quoted, one character", `"k"`, "k"},
		{"white space around", " \tk\t ", "k"},
		{"white space around quotes", " \t\"k\"\t ", "k"},
		{"first and last visible character", "!~", "!~"},
		{"bare with quotes and backslash inside", `a"b\c`, `a"b\c`},
		{"the same quoted", `"a\"b\\c"`, `a"b\c`},
		{"quoted, a backslash before the closing quote", `"a\\"`, `a\`},
		{"quoted, a backslash and a quote", `"\\\""`, `\"`},
		{"bare with a semicolon", "a;b=1", "a;b=1"},
		{"comma in quotes", `"a,b"`, "a,b"},
		{"semicolon in quotes", `"a;b=1"`, "a;b=1"},
		{"longest", strings.Repeat("k", 255), strings.Repeat("k", 255)},
		{"longest, quoted", `"` + strings.Repeat("k", 255) + `"`, strings.Repeat("k", 255)},
		{"longest, quoted and escaped", `"` + strings.Repeat(`\"`, 255) + `"`, strings.Repeat(`"`, 255)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, problem := parseKey(keyHeader(tt.value), wire.HeaderKey, AnyKey)
			require.Nil(t, problem)
			require.Equal(t, tt.key, key)
		})
	}
}

// CONTRACT K-2, K-3, K-4
func TestParseKeyInvalid(t *testing.T) {
	secret := "secret-Key" // stands for the key; no detail may show it
	for _, tt := range []struct {
		name  string
		lines []string
	}{
		{"two lines", []string{secret + "1", secret + "2"}},
		{"two equal lines", []string{secret, secret}},
		{"two lines, one empty", []string{secret, ""}},
		{"list", []string{secret + ", " + secret}},
		{"comma", []string{secret + ","}},
		{"list of strings", []string{`"` + secret + `", "` + secret + `"`}},
		{"parameters", []string{`"` + secret + `";p=1`}},
		{"parameters after space", []string{`"` + secret + `" ;p`}},
		{"text after the string", []string{`"` + secret + `"x`}},
		{"empty string", []string{`""`}},
		{"one quote", []string{`"`}},
		{"no closing quote", []string{`"` + secret}},
		{"escaped closing quote", []string{`"` + secret + `\"`}},
		{"backslash at the end", []string{`"` + secret + `\`}},
		{"unknown escape", []string{`"` + secret + `\n"`}},
		{"space inside", []string{secret + " " + secret}},
		{"space inside quotes", []string{`"` + secret + ` "`}},
		{"tab inside", []string{secret + "\t" + secret}},
		{"nul", []string{secret + "\x00"}},
		{"control character", []string{secret + "\x1f"}},
		{"delete", []string{secret + "\x7f"}},
		{"control character in quotes", []string{`"` + secret + "\x01" + `"`}},
		{"no-break space around", []string{"\u00a0" + secret}},
		{"non-ASCII", []string{secret + "é"}},
		{"non-ASCII in quotes", []string{`"` + secret + `é"`}},
		{"invalid UTF-8", []string{secret + "\xff"}},
		{"256 characters", []string{strings.Repeat("k", 256)}},
		{"256 characters in quotes", []string{`"` + strings.Repeat("k", 256) + `"`}},
		{"100 KB", []string{strings.Repeat("k", 100<<10)}},
		{"100 KB of quotes", []string{strings.Repeat(`"`, 100<<10)}},
		{"100 KB of backslashes", []string{`"` + strings.Repeat(`\`, 100<<10)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, problem := parseKey(keyHeader(tt.lines...), wire.HeaderKey, AnyKey)
			require.NotNil(t, problem)
			require.Equal(t, CodeKeyInvalid, problem.Code)
			require.Equal(t, http.StatusBadRequest, problem.Status)
			require.Contains(t, problem.Detail, wire.HeaderKey)
			require.NotContains(t, problem.Detail, secret)
			require.Less(t, len(problem.Detail), 200)
			require.Empty(t, key)
		})
	}
}

// CONTRACT K-3, K-10, K-7
func TestParseKey(t *testing.T) {
	t.Run("parse key UUID format", func(t *testing.T) {
		for _, value := range []string{someUUID, `"` + someUUID + `"`} {
			key, problem := parseKey(keyHeader(value), wire.HeaderKey, UUIDKey)
			require.Nil(t, problem, value)
			require.Equal(t, strings.Trim(value, `"`), key)
		}
		for _, value := range []string{
			"key-0193", strings.ReplaceAll(someUUID, "-", ""), "{" + someUUID + "}", "urn:uuid:" + someUUID, someUUID + "0",
			someUUID[1:], "g" + someUUID[1:], strings.Replace(someUUID, "-", "0", 1), strings.Repeat("-", 36),
		} {
			_, problem := parseKey(keyHeader(value), wire.HeaderKey, UUIDKey)
			require.NotNil(t, problem, value)
			require.Equal(t, CodeKeyInvalid, problem.Code)
			require.NotContains(t, problem.Detail, value)
		}
	})
	t.Run("one UUID in two letter cases would be two keys, and the command would run twice", func(t *testing.T) {
		for _, format := range []KeyFormat{UUIDKey, TimedKey} {
			upper := strings.ToUpper(someUUID)
			for _, value := range []string{upper, strings.Replace(someUUID, "c", "C", 1), `"` + upper + `"`} {
				_, problem := parseKey(keyHeader(value), wire.HeaderKey, format)
				require.NotNil(t, problem, value)
				require.Equal(t, CodeKeyInvalid, problem.Code)
				require.Contains(t, problem.Detail, "lower case")
				require.NotContains(t, problem.Detail, strings.Trim(value, `"`))
			}
		}
		key, problem := parseKey(keyHeader(strings.ToUpper(someUUID)), wire.HeaderKey, AnyKey)
		require.Nil(t, problem)
		require.Equal(t, strings.ToUpper(someUUID), key, "elsewhere a key is what the client says it is")
	})
	t.Run("parse key header name", func(t *testing.T) {
		header := http.Header{}
		header.Set("PayPal-Request-Id", "k")
		for _, name := range []string{"PayPal-Request-Id", "paypal-request-id"} {
			key, problem := parseKey(header, name, AnyKey)
			require.Nil(t, problem)
			require.Equal(t, "k", key)
		}
		_, problem := parseKey(keyHeader("k"), "PayPal-Request-Id", AnyKey)
		require.Equal(t, CodeKeyMissing, problem.Code)
		require.Contains(t, problem.Detail, "PayPal-Request-Id")
	})
	t.Run("parse key allocations", func(t *testing.T) {
		for _, value := range []string{someUUID, `"` + someUUID + `"`} {
			header := keyHeader(value)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if _, problem := parseKey(header, wire.HeaderKey, UUIDKey); problem != nil {
					t.Error(problem)
				}
			}), value)
		}
	})
}

// CONTRACT K-5
func TestKeyInQuery(t *testing.T) {
	const paypal = "PayPal-Request-Id"
	for _, tt := range []struct {
		header, query string
		want          bool
	}{
		{wire.HeaderKey, "", false},
		{wire.HeaderKey, "a=1&b=2", false},
		{wire.HeaderKey, "a=idempotency_key", false},
		{wire.HeaderKey, "a=1&b=idempotency-key=2", false},
		{wire.HeaderKey, "idempotency=1&key=2", false},
		{wire.HeaderKey, "idempotency_keys=1", false},
		{wire.HeaderKey, "my_idempotency_key=1", false},
		{wire.HeaderKey, "idempotency key=1", false},
		{wire.HeaderKey, "paypal-request-id=1", false},
		{wire.HeaderKey, "%", false},
		{wire.HeaderKey, "&&;;==", false},
		{wire.HeaderKey, "idempotency_ke%7", false},

		{wire.HeaderKey, "idempotency_key=1", true},
		{wire.HeaderKey, "idempotency-key=1", true},
		{wire.HeaderKey, "idempotency_key", true},
		{wire.HeaderKey, "idempotency_key=", true},
		{wire.HeaderKey, "Idempotency-Key=1", true},
		{wire.HeaderKey, "IDEMPOTENCY_KEY=1", true},
		{wire.HeaderKey, "a=1&idempotency_key=1&b=2", true},
		{wire.HeaderKey, "idempotency%5Fkey=1", true},
		{wire.HeaderKey, "idempotency%2dkey=1", true},
		{wire.HeaderKey, "%69%64%65%6d%70otency_key=1", true},

		// what net/url cannot parse, and drops
		{wire.HeaderKey, "idempotency_key=%zz", true},
		{wire.HeaderKey, "a=%zz&idempotency_key=1", true},
		{wire.HeaderKey, "a=1;idempotency_key=1", true},
		{wire.HeaderKey, "idempotency_key;a=1", true},
		{wire.HeaderKey, "idempotency_key%zz=1", true},
		{wire.HeaderKey, "idempotency_key%=1", true},

		{paypal, "paypal-request-id=1", true},
		{paypal, "paypal_request_id=1", true},
		{paypal, "PayPal%2DRequest_ID=1", true},
		{paypal, "idempotency_key=1", true},
		{paypal, "request_id=1", false},
	} {
		require.Equal(t, tt.want, keyInQuery(tt.query, tt.header), "%s in %q", tt.header, tt.query)
	}
}

func TestKeyInQueryAllocations(t *testing.T) {
	for _, query := range []string{"", "limit=10&cursor=abc%20def"} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if keyInQuery(query, wire.HeaderKey) {
				t.Error("no key in there")
			}
		}), query)
	}
}

// A value that starts with a quote is a key exactly where an RFC 9651 parser sees a String without parameters that the
// key's own rules allow. Everything else a structured field may be is either refused or, bare, the key as it stands.
func requireStructuredFieldAgrees(t *testing.T, value string) {
	t.Helper()
	key, problem := parseKey(keyHeader(value), wire.HeaderKey, AnyKey)
	trimmed := strings.Trim(value, " \t")
	if !strings.HasPrefix(trimmed, `"`) {
		if problem == nil {
			require.Equal(t, trimmed, key)
		}
		return
	}
	item, err := httpsfv.UnmarshalItem([]string{trimmed})
	text, isString := item.Value.(string)
	valid := err == nil && isString && len(item.Params.Names()) == 0 && trimmed[len(trimmed)-1] == '"' &&
		len(text) >= 1 && len(text) <= 255 && !strings.Contains(text, " ")
	require.Equal(t, valid, problem == nil, "%q: %v", value, err)
	if valid {
		require.Equal(t, text, key)
	}
}

// CONTRACT K-2
func TestParseKeyAgreesWithStructuredFields(t *testing.T) {
	// Every text of up to five of the characters that matter behind a quote.
	const alphabet = "\"\\a ,;\x7f"
	texts := []string{`"`}
	for range 5 {
		var longer []string
		for _, text := range texts {
			requireStructuredFieldAgrees(t, text)
			for i := range len(alphabet) {
				longer = append(longer, text+alphabet[i:i+1])
			}
		}
		texts = longer
	}
	for _, text := range []string{`"k";a=1`, `"k", "l"`, `tok`, `?1`, `:YQ==:`, `1.5`, `("a" "b")`, someUUID, `%"k"`} {
		requireStructuredFieldAgrees(t, text)
	}
}

// CONTRACT K-2, K-3
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{
		"", " ", someUUID, `"` + someUUID + `"`, `"a\"b\\c"`, `"a";p=1`, `"a", "b"`, "a,b", "a b", "é", "\x00", `"`, `"\`,
		`""`, "a\xff", strings.Repeat("k", 255), strings.Repeat("k", 256), `"` + strings.Repeat(`\\`, 255) + `"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		requireStructuredFieldAgrees(t, value)

		key, problem := parseKey(keyHeader(value), wire.HeaderKey, AnyKey)
		if problem != nil {
			require.Empty(t, key)
			require.Contains(t, []Code{CodeKeyMissing, CodeKeyInvalid}, problem.Code)
			return
		}
		require.True(t, len(key) >= 1 && len(key) <= 255)
		require.NotContains(t, key, " ")
		quoted, err := httpsfv.Marshal(httpsfv.NewItem(key)) // refuses all but printable ASCII
		require.NoError(t, err)
		again, problem := parseKey(keyHeader(quoted), wire.HeaderKey, AnyKey)
		require.Nil(t, problem)
		require.Equal(t, key, again)

		if key[0] != '"' && !strings.Contains(key, ",") {
			again, problem = parseKey(keyHeader(key), wire.HeaderKey, AnyKey)
			require.Nil(t, problem)
			require.Equal(t, key, again)
		}
	})
}
