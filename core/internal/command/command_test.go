package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/auth19/idem/core/store"
	"github.com/stretchr/testify/require"
)

func hashOf(t testing.TB, c Command) store.CommandHash {
	t.Helper()
	hash, err := c.Hash(Version)
	require.NoError(t, err)
	return hash
}

// jsonHash is the hash of a payment with the given JSON body.
func jsonHash(t testing.TB, body string) store.CommandHash {
	t.Helper()
	return bodyHash(t, "application/json", body)
}

func bodyHash(t testing.TB, contentType, body string) store.CommandHash {
	t.Helper()
	in := []byte(body)
	hash := hashOf(t, Command{Method: "POST", path: "/v1/payments", contentType: contentType, Body: in})
	require.Equal(t, body, string(in), "the body was changed")
	return hash
}

// CONTRACT H-1, H-8
func TestHashCoversEveryField(t *testing.T) {
	headers := func(lines ...string) []namedHeader {
		header := http.Header{}
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ":")
			header.Add(name, value)
		}
		return headersNamed(header, []string{"X-Account", "X-Region"})
	}

	trailers := allHeaders
	// No two of these are the same command.
	commands := []Command{
		{},
		{Method: "POST"},
		{Method: "PUT"},
		{path: "POST"},
		{Method: "POST", path: "/a"},
		{Method: "POST", path: "/A"},
		{Method: "POST", path: "/a/"},
		{Method: "POST", path: "/a%2Fb"},
		{Method: "POST", path: "/a/b"},
		{Method: "POST/", path: "a/b"},
		{Method: "POST", path: "/a", rawQuery: "b"},
		{Method: "POST", path: "/ab"},
		{Method: "POST", path: "/a?b"},
		{Method: "POST", path: "/a", rawQuery: "b=1"},
		{Method: "POST", path: "/a", rawQuery: "b=1&b=2"},
		{Method: "POST", path: "/a", rawQuery: "b=2&b=1"},
		{Method: "POST", path: "/a", rawQuery: "b=1%26b=2"},
		{Method: "POST", path: "/a", rawQuery: "%zz"},
		{Method: "POST", path: "/a", rawQuery: "%25zz"},
		{Method: "POST", path: "/a", contentType: "text/plain"},
		{Method: "POST", path: "/a", contentType: "text/html"},
		{Method: "POST", path: "/a", contentType: "text/plain; charset=utf-16"},
		{Method: "POST", path: "/a", contentType: "text/plain; charset=latin1"},
		{Method: "POST", path: "/a", contentType: "text/plain; charset"},
		{Method: "POST", path: "/a", contentType: "application/json"},
		{Method: "POST", path: "/a", contentType: "text/json"},
		{Method: "POST", path: "/a", contentType: "application/problem+json"},
		{Method: "POST", path: "/a", Body: []byte("{}")},
		{Method: "POST", path: "/a", Body: []byte("{} ")},
		{Method: "POST", path: "/a", contentType: "application/json", Body: []byte("{}")},
		{Method: "POST", path: "/a", headers: headers("X-Account:")},
		{Method: "POST", path: "/a", headers: headers("X-Account:1")},
		{Method: "POST", path: "/a", headers: headers("X-Account:2")},
		{Method: "POST", path: "/a", headers: headers("X-Region:1")},
		{Method: "POST", path: "/a", headers: headers("X-Account:1", "X-Region:")},
		{Method: "POST", path: "/a", headers: headers("X-Account:1", "X-Region:2")},
		{Method: "POST", path: "/a", headers: headers("X-Account:2", "X-Region:1")},
		{Method: "POST", path: "/a", headers: headers("X-Account:1", "X-Account:2")},
		{Method: "POST", path: "/a", headers: headers("X-Account:2", "X-Account:1")},
		{Method: "POST", path: "/a", headers: headers("X-Account:1, 2")},
		{Method: "POST", path: "/a", trailers: trailers(http.Header{"X-Account": nil})},
		{Method: "POST", path: "/a", trailers: trailers(http.Header{"X-Account": {""}})},
		{Method: "POST", path: "/a", trailers: trailers(http.Header{"X-Account": {"1"}})},
		{Method: "POST", path: "/a", trailers: trailers(http.Header{"X-Account": {"2"}})},
		{Method: "POST", path: "/a", trailers: trailers(http.Header{"X-Account": {"1"}, "X-Region": {"2"}})},
	}
	seen := map[store.CommandHash]Command{}
	for _, c := range commands {
		hash := hashOf(t, c)
		require.Equal(t, hash, hashOf(t, c))
		require.NotContains(t, seen, hash, "%+v", c)
		seen[hash] = c
	}
}

// CONTRACT H-4
func TestHashVersions(t *testing.T) {
	for _, version := range []int16{0, -1, Version + 1, 32767} {
		hash, err := Command{Method: "POST"}.Hash(version)
		require.ErrorIs(t, err, ErrUnknownVersion)
		require.Zero(t, hash)
	}
	require.Equal(t, Version, hashOf(t, Command{}).Version)
}

// CONTRACT H-1
func TestHashQuery(t *testing.T) {
	hash := func(query string) store.CommandHash {
		return hashOf(t, Command{Method: "POST", path: "/v1/payments", rawQuery: query})
	}
	require.Equal(t, hash("a=1&b=2"), hash("b=2&a=1"))
	require.Equal(t, hash("a=1&b=2&b=1"), hash("b=2&a=1&b=1"))
	require.Equal(t, hash("a=x%20y"), hash("a=x+y"))
	require.Equal(t, hash("a=%7E"), hash("a=~"))
	require.Equal(t, hash(""), hash("&"))
	require.NotEqual(t, hash("a=1&a=2"), hash("a=2&a=1"))
	require.NotEqual(t, hash("a=1"), hash("a=1&b="))
	require.NotEqual(t, hash("a=1"), hash("A=1"))
	require.NotEqual(t, hash("a=1;b=2"), hash("b=2;a=1"), "what cannot be parsed is compared as it came")
}

// Of the spellings of one path that reach a handler, none counts: what proxies escape, what a raw client does not, and an
// escaped path that middleware has left behind.
//
// CONTRACT H-1
func TestHashPath(t *testing.T) {
	hash := func(path, raw string) store.CommandHash {
		return hashOf(t, Of(&http.Request{Method: "POST", URL: &url.URL{Path: path, RawPath: raw}}, nil, nil))
	}
	same := hash("/a~/é{%/", "/%61%7e/%c3%A9%7b%25/")
	require.Equal(t, same, hash("/a~/é{%/", ""))
	require.Equal(t, same, hash("/a~/é{%/", "/a~/é{%25/"), "a raw client")
	require.Equal(t, same, hash("/a~/é{%/", "/v1/a~/"), "rewritten")
	require.NotEqual(t, hash("/a/b", ""), hash("/a/b", "/a%2Fb"))
	require.NotEqual(t, hash("/a/b{", "/a/b{"), hash("/a/b{", "/a%2Fb{"))
	require.NotEqual(t, hash("/a", ""), hash("/a/", ""))
	require.NotEqual(t, hash("/a/b", ""), hash("/a//b", ""))
	require.NotEqual(t, hash("/a/b", ""), hash("/a/./b", ""))
	require.NotEqual(t, hash("/%41", ""), hash("/A", ""))
	parts := []string{"", "/", "%2F", "%2f", "~", "%7E", "%7e", "a", "%61", ";", "%3B", "é", "%C3%A9", "%25", "%2561"}
	meaning := strings.NewReplacer("%2f", "%2F", "%7E", "~", "%7e", "~", "%61", "a", "é", "%C3%A9").Replace
	ofPath, ofMeaning := map[string]string{}, map[string]string{} // each is a function: same meaning, same path
	for n := range len(parts) * len(parts) * len(parts) {
		path := parts[n%len(parts)] + parts[n/len(parts)%len(parts)] + parts[n/len(parts)/len(parts)]
		canonical, means := canonicalPath(path), meaning(path)
		if _, known := ofPath[canonical]; !known {
			ofPath[canonical] = means
		}
		if _, known := ofMeaning[means]; !known {
			ofMeaning[means] = canonical
		}
		require.Equal(t, means, ofPath[canonical], path)
		require.Equal(t, canonical, ofMeaning[means], path)
	}
}

// CONTRACT H-1
func TestHashNamedHeaders(t *testing.T) {
	header := http.Header{}
	header.Set("X-Account", "1")
	header.Set("X-Region", "2")
	hash := func(names ...string) store.CommandHash {
		return hashOf(t, Command{Method: "POST", headers: headersNamed(header, names)})
	}
	require.Equal(t, hash("X-Account", "X-Region"), hash("x-region", "X-ACCOUNT"))
	require.Equal(t, hash("X-Account"), hash("X-Account", "x-account"))
	require.Equal(t, hash("X-Account"), hash("X-Account", "X-Absent"))
	require.Equal(t, hash(), hash("X-Absent"))
	require.NotEqual(t, hash("X-Account"), hash("X-Region"))
	require.NotEqual(t, hash(), hash("X-Account"))
}

// CONTRACT H-1, H-3, H-8
func TestHashMediaType(t *testing.T) {
	same := func(body string, contentTypes ...string) {
		t.Helper()
		for _, contentType := range contentTypes[1:] {
			require.Equal(t, bodyHash(t, contentTypes[0], body), bodyHash(t, contentType, body), contentType)
		}
	}
	same(`{"a":1}`, "application/json", "Application/JSON", " application/json ", "application/json;",
		"application/json; charset=utf-8", "application/json;charset=UTF-8", "application/json; CHARSET=\"Utf-8\"")
	same(`{"a":1}`, "application/vnd.api+json; version=1; v=2", "application/vnd.API+JSON;v=2;charset=UTF-8;Version=\"1\"")
	same("a", "text/plain", "text/plain; charset=utf-8", "TEXT/plain;")
	same("a", "text/plain; charset=utf-8; format=flowed", "text/plain; format=flowed; CHARSET=\"utf-8\"")
	seen := map[store.CommandHash]string{} // what counts, well-formed or not
	for _, contentType := range []string{
		"application/json", "application/json; version=1", "application/json; version=2", "application/json; Version=2; v=1",
		"application/json; charset=latin1", "application/json; charset", "application/json; version", "application/json; =",
		"application/json; a=1; a=2", "application/json; a=2; a=1", "application/json; version*1=1", "application/json; version*1=2",
		"text/plain; a=b", "text/plain; a=B", "multipart/form-data; boundary=b", "multipart/form-data; boundary=b; version=2",
	} {
		hash := bodyHash(t, contentType, `{"a":1}`)
		require.NotContains(t, seen, hash, contentType)
		seen[hash] = contentType
	}
	require.NotEqual(t, bodyHash(t, "", `{"a":1}`), bodyHash(t, "application/json", `{"a":1}`))

	// bodies are compared by meaning only where the media type says JSON
	for _, contentType := range []string{"", "text/plain", "application/jsonp", "application/json-seq",
		"application/x-ndjson", "json", "application/x-www-form-urlencoded", "no media type"} {
		require.NotEqual(t, bodyHash(t, contentType, `{"a":1}`), bodyHash(t, contentType, `{"a": 1}`), contentType)
	}
	for _, contentType := range []string{"application/json", "text/json", "application/vnd.api+json; a=b", "a/b+json; c",
		"application/json; a=1; a=2"} {
		require.Equal(t, bodyHash(t, contentType, `{"a":1}`), bodyHash(t, contentType, `{"a": 1}`), contentType)
	}
}

// CONTRACT H-5
func TestHashLargeBody(t *testing.T) {
	const item = `{"order":"0193a8f3-0000-7000-8000-000000000000","currency":"EUR","amount":"12.50"},`
	body := []byte("[" + strings.Repeat(item, 10<<20/len(item)) + "0]")
	before := bytes.Clone(body)
	hash := func() store.CommandHash { return hashOf(t, Command{contentType: "application/json", Body: body}) }
	whole := hash()
	require.True(t, bytes.Equal(before, body), "the body was changed")
	body[len(body)-2] = '1'
	require.NotEqual(t, whole, hash())
}

// smallBody is a JSON body of about 100 bytes whose members are not in order.
const smallBody = `{"order":"0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c","currency":"EUR","amount":"12.50","note":"hello"}`

// manyNames is an object of about size bytes with names outside ASCII, which are slow to fold and share their beginning.
func manyNames(size int) string {
	var body strings.Builder
	body.WriteString("{")
	for i := 0; body.Len() < size; i++ {
		fmt.Fprintf(&body, `"%s%d":0,`, strings.Repeat("ж", 60), i*7919%10007)
	}
	return body.String() + `"":0}`
}

func BenchmarkCommandHash(b *testing.B) {
	for _, bm := range []struct{ name, contentType, body string }{
		{"JSON-100B", "application/json", smallBody},
		{"JSON-1MB", "application/json", "[" + strings.Repeat(smallBody+",", 1<<20/len(smallBody)) + "0]"},
		// the worst that sorting can be made to do: each object holds all the others, and is out of order
		{"JSON-1MB-nested", "application/json", strings.Repeat(`{"b":`, maxJSONDepth) + `"` + strings.Repeat("x", 1<<20) +
			`"` + strings.Repeat(`,"a":1}`, maxJSONDepth)},
		{"JSON-1MB-names", "application/json", manyNames(1 << 20)},
		{"raw-100B", "text/plain", smallBody},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := Command{Method: "POST", path: "/v1/payments", contentType: bm.contentType, Body: []byte(bm.body)}
			b.SetBytes(int64(len(c.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Hash(Version); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
