package idemclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/auth19/idem/core/idemclient"
)

// A queueing proxy has taken the command, and answers for the server. A client of a guarded route does not believe it; one
// of a server without this library is told which answers are definite.
func ExampleProvider_definite() {
	queue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	defer queue.Close()

	unguarded := idemclient.Standard()
	unguarded.Definite = idemclient.Succeeded

	for _, provider := range []idemclient.Provider{idemclient.Standard(), unguarded} {
		client, err := idemclient.New(idemclient.Config{Provider: provider})
		must(err)
		ctx := context.Background()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, queue.URL, strings.NewReader(`{"amount":"12.50"}`))
		must(err)
		res, err := client.Do(ctx, "order-7/pay", r)
		if e, failed := errors.AsType[*idemclient.Error](err); failed {
			fmt.Println("still uncertain:", errors.Is(err, idemclient.ErrStillUncertain), e.Status)
			continue
		}
		must(res.Body.Close())
		fmt.Println("an answer:", res.StatusCode)
	}
	// Output:
	// still uncertain: true 202
	// an answer: 202
}
