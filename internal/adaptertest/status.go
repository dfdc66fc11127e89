package adaptertest

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// The app's own rendering leaves the status out: no request ends in a panic, and no refusal becomes a success.
//
// CONTRACT P-1, R-1
func statusThatIsNone(t *testing.T, a Adapter) {
	for _, status := range []int{0, -1, 42, 1000} {
		client := paying(t, a, core.Config{RenderProblem: func(_ *http.Request, p *core.Problem) *core.Reply {
			return &core.Reply{Status: status, Body: []byte(p.Code)}
		}}, func(c Context) error { return c.String(http.StatusCreated, "paid") })
		got := client.Do(Call{})
		require.NoError(t, got.Err)
		require.Equal(t, http.StatusBadRequest, got.Status, status)
		require.Equal(t, "key_missing", got.Body)
	}
	if a.Rendering == nil {
		return
	}
	app, a := Careless(a, 0)
	declined := a.Handler(func(Context) error { return errors.New("declined") })
	Guarded(t, a, app, core.Config{}).Handle(http.MethodPost, "/pay", declined)
	require.NoError(t, Serve(t, app).Do(Call{Key: "key-1"}).Err)
}
