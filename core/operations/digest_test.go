package operations

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// The digest is of all that is decided: outcome, status, headers, body, and what undid the steps.
//
// CONTRACT X-7
func TestTheDigestIsOfTheWholeProposal(t *testing.T) {
	answer := func(status int, location, body string) core.Decision {
		return core.Decision{Applied: true, Answer: &core.Answer{Status: status, Header: http.Header{"Location": {location}}, Body: []byte(body)}}
	}
	seen := map[string]bool{}
	for _, d := range []core.Decision{answer(202, "/p/1", "p-1"), answer(201, "/p/1", "p-1"), answer(202, "/p/2", "p-1"),
		answer(202, "/p/1", "p-2"), {}, {Undone: "a refund"}} {
		kept, err := encode(d)
		require.NoError(t, err)
		for token := range byte(2) { // of the same answer there may be two proposals: somebody has withdrawn the first one
			digest := digestOf(store.Note{Token: [16]byte{token}, Decision: kept})
			require.False(t, seen[digest])
			seen[digest] = true
		}
	}
}
