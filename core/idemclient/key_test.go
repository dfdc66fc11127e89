package idemclient_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// Whose first attempt it is knows that nothing was carried out before; a plan before it changes nothing of that.
//
// CONTRACT C-4
func TestTheFirstAttemptOfAPlannedIntentIsCertain(t *testing.T) {
	client := newClient(t, idemclient.Config{Transport: on(busy), MaxAttempts: 1})
	planned(t)(client.Key(t.Context(), "order-7"))
	require.False(t, failed(t)(pay(t, client, "order-7")).Uncertain)
	require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain, "another process may have sent it meanwhile")
}

// CONTRACT C-1
func TestAJournalWithoutAKey(t *testing.T) {
	w := on(says(201, created))
	require.ErrorContains(t, failed(t)(pay(t, newClient(t, idemclient.Config{Transport: w, Journal: keyless{}}), "order-7")), "without a key")
	require.Empty(t, w.sent)
}

type keyless struct{ *brokenJournal }

func (keyless) Begin(_ context.Context, e intents.Entry) (intents.Entry, error) { return e, nil }
