package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/auth19/idem/core/store"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// CONTRACT H-2
func TestJSONSameMeaning(t *testing.T) {
	for _, group := range [][]string{
		{`{}`, ` { } `, "\r\n{\t}\n"},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{ "b" : 2 , "a" : 1 }`},
		{`{"a":{"b":1,"c":[{"d":2,"e":3}]}}`, `{"a":{"c":[{"e":3,"d":2}],"b":1}}`},
		{`{"c":1,"a":{"z":1,"y":2},"b":3}`, `{"a":{"y":2,"z":1},"b":3,"c":1}`},
		{`{"a":1,"ab":2,"":3,"\"":4,"Z":5}`, `{"Z":5,"\"":4,"":3,"ab":2,"a":1}`},
		{`"A/é` + "\u2028" + `"`, `"\u0041\/\u00e9\u2028"`, `"\u0041\u002F\u00E9` + "\u2028" + `"`},
		{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
		{`"\n\u0001"`, `"\u000a\u0001"`, `"\u000A\u0001"`},
		{`{"amount":1}`, `{"\u0061mount":1}`},
		{`{"a":"{\"b\":1,","b":"]}:"}`, `{"b":"]}:","a":"{\"b\":1,"}`},
		{`{"a":"\\","b":"\\\""}`, `{"b":"\\\"","a":"\\"}`},
		// members of one name keep their order; the others move freely around them
		{`{"a":1,"a":2,"b":3}`, `{"b":3,"a":1,"a":2}`, `{"a":1,"b":3,"\u0061":2}`},
		{`[]`, ` [ ] `},
		{`0`, ` 0 `},
	} {
		for _, body := range group[1:] {
			require.Equal(t, jsonHash(t, group[0]), jsonHash(t, body), "%s and %s", group[0], body)
		}
	}
}

// CONTRACT H-2
func TestJSONManyMembersOfOneName(t *testing.T) {
	var mixed, first, second []string
	for i := range 100 {
		a, b := fmt.Sprintf(`"a":%d`, i), fmt.Sprintf(`"b":%d`, i)
		mixed, first, second = append(mixed, b, a), append(first, a), append(second, b)
	}
	object := func(members ...string) store.CommandHash { return jsonHash(t, "{"+strings.Join(members, ",")+"}") }
	require.Equal(t, object(slices.Concat(first, second)...), object(mixed...))
	slices.Reverse(first)
	require.NotEqual(t, object(slices.Concat(first, second)...), object(mixed...))
}

// Trap 7: two amounts never share a hash.
//
// CONTRACT H-2
func TestJSONOtherMeaning(t *testing.T) {
	for _, group := range [][]string{
		{`{"a":1}`, `{"a":2}`, `{"A":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":{}}`, `{"a":true}`, `{"a":false}`},
		{`{"a":null}`, `{}`, `{"a":0}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`, `null`, `[]`, `[null]`, `""`},
		{`9007199254740992`, `9007199254740993`},
		{`1E400`, `1E500`, `1e400`},
		{`1.10`, `1.1`, `1.100`, `11e-1`},
		{`100`, `1e2`, `1E2`, `1e+2`, `100.0`, `1.0e2`},
		{`0`, `-0`, `0.0`, `0e1`},
		{`12.500000000000000000000000000001`, `12.500000000000000000000000000002`},
		{`{"a":{"amount":1}}`, `{"a":{"amount":2}}`, `{"a":{}}`},
		{`[1,2]`, `[2,1]`, `[1,2,2]`, `[12]`, `[[1],2]`, `[1,[2]]`},
		{`[{"a":1},{"a":2}]`, `[{"a":2},{"a":1}]`},
		{`{"a":1,"b":2}`, `{"a":2,"b":1}`},
		{`{"a":[1,{"b":2}]}`, `{"a":[{"b":2},1]}`, `{"a":[1],"b":2}`},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`, `{"a":1}`, `{"a":2}`, `{"a":1,"a":2,"a":2}`, `{"a":1,"a":1}`},
		{`{"b":[{"a":2,"a":1}]}`, `{"b":[{"a":1,"a":2}]}`},
		{`"A"`, `"a"`, `"\\u0041"`, `"A "`},
		{`"é"`, `"e\u0301"`}, // Unicode normalization is not part of JSON
		{`"{}"`, `{}`},
		{`"1"`, `1`},
	} {
		seen := map[store.CommandHash]string{}
		for _, body := range group {
			hash := jsonHash(t, body)
			require.NotContains(t, seen, hash, body)
			seen[hash] = body
		}
	}
}

// Go's decoders take names for one that are equal under case folding, and believe the last of them.
//
// CONTRACT H-6
func TestNamesThatFoldKeepTheirOrder(t *testing.T) {
	for _, names := range [][2]string{
		{"amount", "Amount"}, {"amount", "AMOUNT"}, {"key", "\u212aey"}, {"Key", "\u212aEY"}, {"sum", "\u017fum"}, {"SUM", "\u017fum"},
		{"größe", "GRÖẞE"}, {"\u03c3", "\u03c2"}, {"\u01c5", "\u01c4"},
	} {
		one := `{"x":0,"` + names[0] + `":1000,"` + names[1] + `":1}`
		other := `{"x":0,"` + names[1] + `":1,"` + names[0] + `":1000}`
		require.NotEqual(t, jsonHash(t, one), jsonHash(t, other), one)
		moved := `{"` + names[0] + `":1000, "` + names[1] + `":1, "x":0}`
		require.Equal(t, jsonHash(t, one), jsonHash(t, moved), one)

		var a, b map[string]int // what a client re-serialises is the same command where nothing folds
		require.NoError(t, json.Unmarshal([]byte(`{"`+names[0]+`":1}`), &a))
		require.NoError(t, json.Unmarshal([]byte(`{"`+names[1]+`":1}`), &b))
		require.NotEqual(t, a, b)
		require.NotEqual(t, jsonHash(t, `{"`+names[0]+`":1}`), jsonHash(t, `{"`+names[1]+`":1}`), "every name counts")
	}
	for _, names := range [][2]string{{"a_b", "ab"}, {"straße", "strasse"}, {"i", "\u0131"}, {"amount", "amounts"}} {
		one := `{"` + names[0] + `":1000,"` + names[1] + `":1}`
		other := `{"` + names[1] + `":1,"` + names[0] + `":1000}`
		require.Equal(t, jsonHash(t, one), jsonHash(t, other), one)
	}
}

// Folding a letter outside ASCII takes some hundred nanoseconds, and sorting compares each name many times.
//
// CONTRACT H-9
func TestNamesAreFoldedOnce(t *testing.T) {
	var members []string
	names := 0
	for i := range 1000 {
		name := fmt.Sprintf(`"%dÄÖ%s"`, i*7919%1000, strings.Repeat("ß", i%20))
		members = append(members, name+`:{"one":{}}`)
		names += len(name)
	}
	var c canonicalJSON
	for range 2 { // the memory is used again
		_, ok := c.of([]byte("{" + strings.Join(members, ",") + "}"))
		require.True(t, ok)
		require.Len(t, c.folded, names)
	}
}

// What is no JSON is the handler's to refuse, and compared as it came.
//
// CONTRACT H-2
func TestJSONFallsBackToRawBytes(t *testing.T) {
	for _, body := range []string{
		``, ` `, `{`, `}`, `nul`, `{"a":1`, `{"a":1}}`, `{"a":1}{"a":1}`, `{"a":1} x`, `{"a":1,}`, `[1,]`, `{a:1}`, `{'a':1}`,
		`01`, `1.`, `.5`, `+1`, `NaN`, `0x10`, `"a`, `"\x41"`, "\"\n\"", `/**/{}`, "\ufeff{}", "{}\x00",
		"\"\xff\"", `"\ud800"`, `"\ude00\ud83d"`, "{\"\xff\":1}",
	} {
		_, ok := new(canonicalJSON).of([]byte(body))
		require.False(t, ok, body)
		require.Equal(t, jsonHash(t, body), jsonHash(t, body))
		require.NotEqual(t, jsonHash(t, body), jsonHash(t, body+" "), "%q", body)
	}
	require.NotEqual(t, jsonHash(t, `"\ud800"`), jsonHash(t, `"\ud801"`))
	require.NotEqual(t, jsonHash(t, "\"\xff\""), jsonHash(t, "\"\xfe\""))
}

// CONTRACT H-2
func TestJSONDepth(t *testing.T) {
	nested := func(depth int, inner string) string {
		objects := depth / 2
		return strings.Repeat(`[{"b":0,"a":`, objects) + strings.Repeat("[", depth%2) + inner +
			strings.Repeat("]", depth%2) + strings.Repeat("}]", objects)
	}
	for _, depth := range []int{1, 2, maxJSONDepth - 1, maxJSONDepth, maxJSONDepth + 1, 9_999, 10_000, 10_001, 1_000_000} {
		body := nested(depth, "1")
		require.NotEqual(t, jsonHash(t, body), jsonHash(t, nested(depth, "2")))
		require.NotEqual(t, jsonHash(t, body), jsonHash(t, nested(depth+2, "1")))
		same := jsonHash(t, body) == jsonHash(t, strings.ReplaceAll(body, "[", "[ "))
		require.Equal(t, depth <= maxJSONDepth, same, "depth %d", depth)
	}
	for _, bracket := range []string{"[", "{", `{"a":`, "]", "}"} { // never closed, or never opened
		jsonHash(t, strings.Repeat(bracket, 10_000))
	}
}

// jsonObject is a list of members, whose order does not count but for members of the same folded name.
type jsonObject []namedValue

type namedValue struct {
	name  string
	value any
}

// jsonNumber is a JSON number, digit by digit.
type jsonNumber string

func oneOf[T any](draw *rand.Rand, of ...T) T { return of[draw.IntN(len(of))] }

// drawString draws letters of each kind that has a rule: escapes, case folding (K, Kelvin), two units of UTF-16.
func drawString(draw *rand.Rand) string {
	text := make([]rune, draw.IntN(5))
	for i := range text {
		text[i] = oneOf(draw, 'a', 'K', 'k', '\u212a', 's', '\u017f', '"', '\\', '/', '\n', 0, 0x1f, 0x7f, '<', '\u2028', 'é', '\u0301', '\ufffd',
			'\U0001F4B6', rune(0x80+draw.IntN(0x2000)))
	}
	return string(text)
}

func drawNumber(draw *rand.Rand) jsonNumber {
	digits := func(most int) string {
		text := make([]byte, 1+draw.IntN(most))
		for i := range text {
			text[i] = byte('0' + draw.IntN(10))
		}
		return string(text)
	}
	whole := oneOf(draw, "0", fmt.Sprint(1+draw.IntN(9))+digits(20))
	fraction := oneOf(draw, "", "."+digits(5))
	exponent := oneOf(draw, "", oneOf(draw, "e", "E")+oneOf(draw, "", "+", "-")+digits(3))
	return jsonNumber(oneOf(draw, "", "-") + whole + fraction + exponent)
}

// drawJSON draws a value made of nil, bool, jsonNumber, string, []any and jsonObject.
func drawJSON(draw *rand.Rand, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch draw.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return draw.IntN(2) == 0
	case 2:
		return drawNumber(draw)
	case 3:
		return drawString(draw)
	case 4:
		array := make([]any, draw.IntN(5))
		for i := range array {
			array[i] = drawJSON(draw, depth-1)
		}
		return array
	default:
		members := make(jsonObject, draw.IntN(7))
		for i := range members {
			name := oneOf(draw, "a", "b", "A", "", drawString(draw))
			members[i] = namedValue{name, drawJSON(draw, depth-1)}
		}
		return members
	}
}

// spellJSON writes value with white space, escapes and order of members as drawn.
func spellJSON(draw *rand.Rand, value any) string {
	space := func() string { return oneOf(draw, "", "", " ", "\r\n\t") }
	var text string
	switch v := value.(type) {
	case nil:
		text = "null"
	case bool:
		text = fmt.Sprint(v)
	case jsonNumber:
		text = string(v)
	case string:
		text = spellString(draw, v)
	case []any:
		elements := make([]string, len(v))
		for i, element := range v {
			elements[i] = spellJSON(draw, element)
		}
		text = "[" + space() + strings.Join(elements, ",") + "]"
	case jsonObject:
		ofName := map[string]jsonObject{} // in their order
		for _, m := range v {
			ofName[folded(m.name)] = append(ofName[folded(m.name)], m)
		}
		members := make([]string, len(v))
		for i, at := range draw.Perm(len(v)) {
			m := v[at]
			next := ofName[folded(m.name)][0]
			members[i] = space() + spellString(draw, next.name) + space() + ":" + spellJSON(draw, next.value)
			ofName[folded(m.name)] = ofName[folded(m.name)][1:]
		}
		text = "{" + space() + strings.Join(members, ",") + "}"
	}
	return space() + text + space()
}

// folded is one spelling of all names that are equal under case folding.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

func spellString(draw *rand.Rand, s string) string {
	if draw.IntN(2) == 0 {
		var text strings.Builder
		for _, unit := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&text, `\u%04x`, unit)
		}
		return `"` + text.String() + `"`
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// changeJSON returns value with one thing changed.
func changeJSON(draw *rand.Rand, value any) any {
	switch v := value.(type) {
	case nil:
		return jsonNumber("0")
	case bool:
		return !v
	case jsonNumber:
		last := v[len(v)-1]
		return v[:len(v)-1] + jsonNumber('0'+(last-'0'+1)%10)
	case string:
		return v + "x"
	case []any:
		if len(v) == 0 || draw.IntN(2) == 0 {
			return append(slices.Clone(v), nil)
		}
		changed := slices.Clone(v)
		i := draw.IntN(len(v))
		changed[i] = changeJSON(draw, v[i])
		return changed
	case jsonObject:
		if len(v) == 0 {
			return jsonObject{{"a", nil}}
		}
		changed := slices.Clone(v)
		m := &changed[draw.IntN(len(v))]
		switch draw.IntN(3) {
		case 0: // null against absent, and absent against anything
			i := draw.IntN(len(v))
			return slices.Delete(changed, i, i+1)
		case 1:
			m.name += "x"
		default:
			m.value = changeJSON(draw, m.value)
		}
		return changed
	}
	panic("unreachable")
}

// CONTRACT H-2
func TestJSONSpellingDoesNotCount(t *testing.T) {
	for seed := range uint64(2000) {
		draw := rand.New(rand.NewPCG(seed, 0))
		value := drawJSON(draw, 4)
		first, second := spellJSON(draw, value), spellJSON(draw, value)
		one, ok := new(canonicalJSON).of([]byte(first))
		require.True(t, ok, "not valid: %q", first)
		other, ok := new(canonicalJSON).of([]byte(second))
		require.True(t, ok && bytes.Equal(one, other), "%q is %q, but %q is %q", first, one, second, other)
		changed := spellJSON(draw, changeJSON(draw, value))
		other, ok = new(canonicalJSON).of([]byte(changed))
		require.True(t, ok && !bytes.Equal(one, other), "%q and %q are both %q", first, changed, one)
	}
}

// CONTRACT H-2
func FuzzHashJSON(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":1,"b":[1.10,1e2,null,true]}`, `{ "b": [1.10,1e2,null,true], "a": 1 }`},
		{`{"a":1}`, `{"a":2}`},
		{`{"a":null}`, `{}`},
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"k":1,"\u212a":2,"K":3}`, `{"\u212a":2,"k":1,"K":3}`},
		{`"\u0041\/"`, `"A/"`},
		{`"\ud800"`, "\"\xff\""},
		{`[[[[{"b":{"d":1,"c":2},"a":""}]]]]`, `[[[[{"a":"","b":{"c":2,"d":1}}]]]]`},
		{`9007199254740993`, `9007199254740992`},
		{`{"a":`, ``},
		{strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("{", 200)},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		requireHashesByMeaning(t, a, b)
		requireHashesByMeaning(t, a, a)
	})
}

// requireHashesByMeaning checks that two bodies have the same hash exactly where encoding/json reads the same values
// from them, digit by digit, or where they are the same bytes.
func requireHashesByMeaning(t *testing.T, a, b []byte) {
	t.Helper()
	same := jsonHash(t, string(a)) == jsonHash(t, string(b))
	valueA, okA := decodeJSON(t, a)
	valueB, okB := decodeJSON(t, b)
	if okA && okB {
		require.Equal(t, reflect.DeepEqual(valueA, valueB), same, "%q and %q", a, b)
	}
	if bytes.Equal(a, b) {
		require.True(t, same)
	}

	// a client that re-serialises its body sends the same command
	if okA {
		again, err := json.Marshal(valueA)
		require.NoError(t, err)
		require.Equal(t, jsonHash(t, string(a)), jsonHash(t, string(again)), "%q and %q", a, again)
	}
	canonical, ok := new(canonicalJSON).of(a)
	reference, valid := referenceForm(a)
	require.Equal(t, valid, ok, "%q", a)
	if ok {
		require.Equal(t, string(reference), string(canonical), "%q", a)
		require.True(t, jsontext.Value(canonical).IsValid(jsontext.AllowDuplicateNames(true)), "%q", canonical)
		again, _ := new(canonicalJSON).of(canonical)
		require.Equal(t, string(canonical), string(again))
	}
}

// referenceForm is the canonical form as package jsontext makes it, but for the order of the members.
func referenceForm(body []byte) (form []byte, ok bool) {
	form, err := jsontext.AppendFormat(nil, body, jsontext.AllowDuplicateNames(true))
	if err != nil || deepest(form) > maxJSONDepth {
		return nil, false
	}
	return sortedForm(form), true
}

// deepest is how deep a valid JSON text is nested.
func deepest(text []byte) (depth int) {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return depth
		}
		depth = max(depth, d.StackDepth())
	}
}

// sortedForm sorts the members of all objects in a value without white space.
func sortedForm(value []byte) []byte {
	if value[0] != '{' && value[0] != '[' {
		return value
	}
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	next := func() []byte {
		part, _ := d.ReadValue()
		return bytes.Clone(part)
	}
	_, _ = d.ReadToken()
	var elements []namedValue
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var e namedValue
		if value[0] == '{' {
			e.name = string(next()) + ":"
		}
		e.value = e.name + string(sortedForm(next()))
		elements = append(elements, e)
	}
	slices.SortStableFunc(elements, func(a, b namedValue) int { return strings.Compare(folded(a.name), folded(b.name)) })
	texts := make([]string, len(elements))
	for i, e := range elements {
		texts[i] = e.value.(string)
	}
	return []byte(string(value[0]) + strings.Join(texts, ",") + string(value[len(value)-1]))
}

// decodeJSON reads a body that all parsers agree on. It is not ok for any other.
func decodeJSON(t *testing.T, body []byte) (value any, ok bool) {
	t.Helper()
	if _, ok := new(canonicalJSON).of(body); !ok || !jsontext.Value(body).IsValid() { // invalid: members of the same name
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	require.NoError(t, d.Decode(&value))
	return value, !namesFold(value)
}

// namesFold reports whether two members of one object have names that Go's decoders take for one.
func namesFold(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, namesFold)
	case map[string]any:
		seen := map[string]bool{}
		for name, member := range v {
			if seen[folded(name)] || namesFold(member) {
				return true
			}
			seen[folded(name)] = true
		}
	}
	return false
}

func BenchmarkHashManySmallMembers(b *testing.B) {
	body := []byte("{" + strings.Repeat(`"b":1,"":2,`, 95_000) + `"a":3}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := new(canonicalJSON).of(body); !ok {
			b.Fatal("not valid")
		}
	}
}
