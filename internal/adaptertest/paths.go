package adaptertest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// Proxies spell the same path in several ways. An honest repeat through another proxy is the same command; another path
// is another one.
//
// CONTRACT H-1
func respelledPaths(t *testing.T, a Adapter) {
	app := a.New()
	Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/orders/"+param(a, "id"),
		text(a, func(c Context) string { return "paid" }))
	client := Serve(t, app)
	for first, other := range map[string]struct{ same, different []string }{
		"a~b.c-d_e":  {[]string{"a%7Eb.c-d_e", "a%7eb.c-d_e", "%61~b%2Ec%2dd%5Fe"}, []string{"A~b.c-d_e", "a~b.c-d_e%20"}},
		"%7E1":       {[]string{"~1", "%7e%31"}, []string{"%257E1", "%2571"}},
		"caf%c3%a9":  {[]string{"caf%C3%A9", "%63af%c3%A9"}, []string{"caf%C3%A8", "cafe%CC%81"}},
		"a%2cb":      {[]string{"a%2Cb"}, []string{"a,b", "a%3Bb"}},
		"a:b@c":      {[]string{"%61:b@c"}, []string{"a%3Ab@c"}},
		"a%7Bb%22":   {[]string{"a%7bb%22"}, []string{"a%7Db%22"}},
		"1%2B1":      {[]string{"1%2b1"}, []string{"1+1"}},
		"100%25.pdf": {[]string{"100%25%2Epdf"}, []string{"100%2525.pdf"}},
	} {
		pay := func(path string) Answer { return client.Do(Call{Path: "/v1/orders/" + path, Key: "key-" + first}) }
		require.Equal(t, "created", pay(first).Result(), first)
		for _, path := range other.same {
			require.Equal(t, "reused", pay(path).Result(), "%s and %s", first, path)
		}
		for _, path := range other.different {
			RequireProblem(t, http.StatusConflict, "key_reused", pay(path))
		}
	}
}
