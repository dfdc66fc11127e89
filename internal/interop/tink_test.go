package interop_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// Tink's AEAD seals answers as it is. A keyset whose primary key was replaced opens those of before; another keyset does
// not.
//
// CONTRACT F-9
func TestTinkSealsAnswers(t *testing.T) {
	db := openPostgres(t)
	manager := keyset.NewManager()
	primary, err := manager.Add(aead.AES256GCMKeyTemplate())
	require.NoError(t, err)
	require.NoError(t, manager.SetPrimary(primary))

	body := []byte("IBAN DE89")
	first := store.Claim{ID: store.ID{1}, Owner: store.Owner{1}, Recovery: store.Park, Method: http.MethodPost, Route: "/v1/payments",
		Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute, Window: store.Window{To: time.Now().Add(time.Hour)}}
	record := func(aead tink.AEAD, c store.Claim) {
		st, err := gormstore.New(db, gormstore.Seal(aead))
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		claimed, err := st.Claim(t.Context(), c)
		require.NoError(t, err)
		require.True(t, claimed.Won)
		done := store.Completion{Answer: store.Answer{Status: http.StatusCreated, Body: body}, Retention: time.Hour}
		require.NoError(t, st.End(t.Context(), claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: done}))
	}
	read := func(aead tink.AEAD, c store.Claim) store.Answer {
		st, err := gormstore.New(db, gormstore.Unseal(aead))
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		rec, err := st.Find(t.Context(), c.ID, store.Viewer{All: true})
		require.NoError(t, err)
		return rec.Answer
	}
	record(tinkOf(t, manager), first)

	var stored []byte
	require.NoError(t, db.Raw("SELECT body FROM idempotency_record").Row().Scan(&stored))
	require.False(t, bytes.Contains(stored, body))

	next, err := manager.Add(aead.XAES256GCM192BitNonceKeyTemplate())
	require.NoError(t, err)
	require.NoError(t, manager.SetPrimary(next))
	second := first
	second.ID, second.Owner = store.ID{2}, store.Owner{2}
	record(tinkOf(t, manager), second)
	for _, c := range []store.Claim{first, second} {
		require.Equal(t, body, read(tinkOf(t, manager), c).Body)
	}

	other, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	require.NoError(t, err)
	wrong, err := aead.New(other)
	require.NoError(t, err)
	require.Equal(t, store.Unreadable, read(wrong, first).Unread)
}

func tinkOf(t *testing.T, manager *keyset.Manager) tink.AEAD {
	t.Helper()
	handle, err := manager.Handle()
	require.NoError(t, err)
	primitive, err := aead.New(handle)
	require.NoError(t, err)
	return primitive
}
