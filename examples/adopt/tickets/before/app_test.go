package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/adopt/internal/drive"
)

// What is wrong with the app: a repeat orders again, and an order that fails after its transaction is booked.
func TestBefore(t *testing.T) {
	db, err := open(drive.File(t))
	require.NoError(t, err)
	app := drive.Serve(t, router(db), db)
	token, err := newToken("customer-1")
	require.NoError(t, err)
	const order = `{"show": "opera", "seats": 2}`

	require.Equal(t, drive.Answer{Status: http.StatusCreated, Body: `{"id":1,"customer":"customer-1","show":"opera","seats":2}`},
		app.Do(http.MethodPost, "/v1/orders", token, "key-1", order))
	require.Equal(t, drive.Answer{Status: http.StatusCreated, Body: `{"id":2,"customer":"customer-1","show":"opera","seats":2}`},
		app.Do(http.MethodPost, "/v1/orders", token, "key-1", order))
	require.JSONEq(t, `{"id":"opera","seats":96}`, app.Do(http.MethodGet, "/v1/shows/opera", token, "", "").Body)

	repair := drive.Break(t, db, "INSERT ON points")
	require.Equal(t, http.StatusInternalServerError, app.Do(http.MethodPost, "/v1/orders", token, "key-2", order).Status)
	repair()
	require.JSONEq(t, `{"id":"opera","seats":94}`, app.Do(http.MethodGet, "/v1/shows/opera", token, "", "").Body)
}
