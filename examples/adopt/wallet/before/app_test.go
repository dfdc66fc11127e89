package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/examples/adopt/internal/drive"
)

// What is wrong with the app: a repeat moves the money again, and a transfer that fails is half done.
func TestBefore(t *testing.T) {
	require.NoError(t, connect(drive.File(t)))
	app := drive.Serve(t, router(), db)
	alice := tokenOf(t, 1)
	for _, token := range []string{alice, tokenOf(t, 2)} {
		require.Equal(t, http.StatusOK, app.Do(http.MethodPost, "/api/wallet", token, "", "").Status)
	}
	const transfer = `{"to": 2, "amount": 100}`

	require.Equal(t, drive.Answer{Status: http.StatusCreated, Body: `{"id":1,"from":1,"to":2,"amount":100}`},
		app.Do(http.MethodPost, "/api/transfers", alice, "key-1", transfer))
	require.Equal(t, drive.Answer{Status: http.StatusCreated, Body: `{"id":2,"from":1,"to":2,"amount":100}`},
		app.Do(http.MethodPost, "/api/transfers", alice, "key-1", transfer))
	require.JSONEq(t, `{"user_id":1,"balance":9800}`, app.Do(http.MethodGet, "/api/wallet", alice, "", "").Body)

	repair := drive.Break(t, db, "UPDATE ON wallets WHEN NEW.user_id = 2")
	require.Equal(t, http.StatusInternalServerError, app.Do(http.MethodPost, "/api/transfers", alice, "key-2", transfer).Status)
	repair()
	require.JSONEq(t, `{"user_id":1,"balance":9700}`, app.Do(http.MethodGet, "/api/wallet", alice, "", "").Body)
	require.EqualValues(t, 3, transfers(t))
}

func tokenOf(t *testing.T, user uint) string {
	token, err := newToken(user)
	require.NoError(t, err)
	return token
}

func transfers(t *testing.T) (count int64) {
	require.NoError(t, db.Model(&Transfer{}).Count(&count).Error)
	return count
}
