package core_test

import (
	"log/slog"
	"net/http"
	"os"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// What goes into a log names the operation by its id: no key, no token, no body.
func ExampleLogObserver() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key { // to fit the output below
			case slog.TimeKey:
				return slog.Attr{}
			case "operation":
				return slog.String(a.Key, a.Value.String()[:8]+"...")
			}
			return a
		},
	}))
	idem, err := core.New(core.Config{
		Store:    memstore.New(),
		Routes:   core.Routes{"POST /v1/payouts": {Recovery: core.Park}},
		Observer: core.LogObserver(log),
	})
	must(err)
	app := guard(idem, "/v1/payouts", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	post(app, "/v1/payouts", "a-secret-key", `{"iban":"a secret too"}`)
	// Output:
	// level=DEBUG msg="idem: claimed" operation=b2ebd3e8... method=POST route=/v1/payouts fence=1
	// level=WARN msg="idem: unknown" operation=b2ebd3e8... method=POST route=/v1/payouts fence=1 status=500
}
