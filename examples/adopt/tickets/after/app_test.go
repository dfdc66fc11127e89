package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/adopt/internal/drive"
)

// A repeat gets the same answer, and an order that fails leaves nothing. What is not guarded yet is as before.
func TestAfter(t *testing.T) {
	db, err := open(drive.File(t))
	require.NoError(t, err)
	idem, err := newIdem(t.Context(), db)
	require.NoError(t, err)
	e := router(db, idem)
	require.NoError(t, audit(t.Context(), e, idem, db))
	require.Contains(t, idem.Table(), "PUT /v1/shows/:id/like: not guarded yet: a like too many, until the next release")
	app := drive.Serve(t, e, db)
	require.JSONEq(t, `{"status":"unready","missing":["run"]}`, app.Do(http.MethodGet, "/readyz", "", "", "").Body, "main calls Run")
	token, err := newToken("customer-1")
	require.NoError(t, err)
	const order = `{"show": "opera", "seats": 2}`

	require.Equal(t, http.StatusUnauthorized, app.Do(http.MethodPost, "/v1/orders", token+"x", "key-1", order).Status)
	require.Equal(t, http.StatusBadRequest, app.Do(http.MethodPost, "/v1/orders", token, "", order).Status)
	for _, result := range []string{"created", "reused"} {
		require.Equal(t, drive.Answer{Status: http.StatusCreated, Result: result,
			Body: `{"id":1,"customer":"customer-1","show":"opera","seats":2}`},
			app.Do(http.MethodPost, "/v1/orders", token, "key-1", order))
	}
	require.Equal(t, http.StatusNoContent, app.Do(http.MethodPut, "/v1/shows/opera/like", token, "", "").Status)

	repair := drive.Break(t, db, "INSERT ON points")
	require.Equal(t, http.StatusInternalServerError, app.Do(http.MethodPost, "/v1/orders", token, "key-2", order).Status)
	repair()
	for _, result := range []string{"created", "reused"} {
		require.Equal(t, drive.Answer{Status: http.StatusConflict, Result: result, Body: `{"message":"sold out"}`},
			app.Do(http.MethodPost, "/v1/orders", token, "key-3", `{"show": "opera", "seats": 99}`))
	}
	require.JSONEq(t, `{"id":"opera","seats":98}`, app.Do(http.MethodGet, "/v1/shows/opera", token, "", "").Body)

	again := app.Do(http.MethodPost, "/v1/orders", token, "key-2", order)
	require.Equal(t, "created", again.Result, "the key of a 500 is free: %v", again)
	require.JSONEq(t, `[{"id":1,"customer":"customer-1","show":"opera","seats":2},{"id":2,"customer":"customer-1","show":"opera","seats":2}]`,
		app.Do(http.MethodGet, "/v1/orders", token, "", "").Body)
}
