package contracttest

import (
	"encoding/json"
	"mime"
	"net/http"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// statusOf are the statuses of the problems that the suite brings about (P-1), without a profile.
var statusOf = map[core.Code]int{
	core.CodeUnauthenticated: http.StatusUnauthorized,
	core.CodeForbidden:       http.StatusForbidden,
	core.CodeNotFound:        http.StatusNotFound,
	core.CodeKeyMissing:      http.StatusBadRequest,
	core.CodeKeyInvalid:      http.StatusBadRequest,
	core.CodeKeyInURL:        http.StatusBadRequest,
	core.CodeBodyTooLarge:    http.StatusRequestEntityTooLarge,
	core.CodeKeyReused:       http.StatusConflict,
	core.CodeInFlight:        http.StatusConflict,
	core.CodeOutcomeUnknown:  http.StatusConflict,
	core.CodeKeyTooOld:       http.StatusConflict,

	core.CodeStoreUnavailable: http.StatusServiceUnavailable,
}

// status is the status of a problem in the app's profile.
//
// CONTRACT P-2
func (a *App) status(code core.Code) int {
	if a.Profile == core.IETF && code == core.CodeKeyReused {
		return http.StatusUnprocessableEntity
	}
	return statusOf[code]
}

// problem is what a problem says.
type problem struct {
	Type       string    `json:"type"`
	Title      string    `json:"title"`
	Status     int       `json:"status"`
	Detail     string    `json:"detail"`
	Code       core.Code `json:"code"`
	Operation  string    `json:"operation"`
	SafeNewKey *bool     `json:"safe_new_key"`

	retryAfter string
}

// requireProblem requires the problem of a code (P-1), with nothing in it of what was sent.
//
// CONTRACT P-1
func (p *probe) requireProblem(a answer, code core.Code) problem {
	p.Helper()
	p.about(a)
	require.Equal(p, p.status(code), a.status, "the status of %s", code)
	require.Empty(p, a.header.Get(wire.HeaderReplayed), "%s of a problem", wire.HeaderReplayed)
	p.requireNoSecret(a)
	if code != core.CodeUnauthenticated { // it may be the answer of the app's own middleware
		require.Equal(p, string(code), a.header.Get(wire.HeaderProblem), "%s of a problem (C-7)", wire.HeaderProblem)
	} else {
		require.Contains(p, a.header.Get("WWW-Authenticate"), "Bearer", "WWW-Authenticate of %s (P-1)", code)
	}
	found := problem{retryAfter: a.header.Get("Retry-After")}
	if p.ProblemCode != nil {
		require.Equal(p, code, p.ProblemCode(a.status, a.header, a.body), "the code of the problem, by App.ProblemCode")
		return found
	}
	contentType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	require.NoError(p, err, "the Content-Type of a problem (P-1)")
	require.Equal(p, "application/problem+json", contentType, "the Content-Type of a problem (P-1)")
	require.NoError(p, json.Unmarshal(a.body, &found), "the body of a problem (P-1)")
	require.Equal(p, code, found.Code, "the code of the problem (P-1)")
	require.Equal(p, a.status, found.Status, "the member status of %s (P-1)", code)
	require.NotEmpty(p, found.Title, "the member title of %s (P-1)", code)
	require.NotEmpty(p, found.Detail, "the member detail of %s (P-1)", code)
	require.NotEmpty(p, found.Type, "the member type of %s (P-1)", code)
	require.Equal(p, p.typeOf(code, found.Type), found.Type, "the member type of %s is the same at every time (P-1)", code)
	if p.Profile == core.IETF && code != core.CodeUnauthenticated {
		require.Regexp(p, "^https?://", found.Type, "the member type of %s is a link (P-2)", code)
	}
	if a.status == http.StatusConflict || code == core.CodeKeyReused || found.Operation != "" {
		_, err := store.ParseID(found.Operation)
		require.NoError(p, err, "the member operation of %s (P-1)", code)
	}
	return found
}

// requireNoSecret requires that neither key, token nor body of the request came back in the answer's body.
func (p *probe) requireNoSecret(a answer) {
	p.Helper()
	for what, secret := range secretsOf(a.sent) {
		require.NotContains(p, string(a.body), secret, "a problem must not repeat the %s of the request (P-1)", what)
	}
}

// problemTypes remembers the type of each code.
type problemTypes struct {
	typesMu sync.Mutex
	types   map[core.Code]string
}

// typeOf returns the type that a code was seen with first.
func (t *problemTypes) typeOf(code core.Code, seen string) string {
	t.typesMu.Lock()
	defer t.typesMu.Unlock()
	if t.types == nil {
		t.types = make(map[core.Code]string)
	}
	if t.types[code] == "" {
		t.types[code] = seen
	}
	return t.types[code]
}
