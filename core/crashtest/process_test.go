package crashtest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/jackc/pgx/v5/stdlib" // the rows are looked at past the app
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// The app that is a process: this test binary, run once more. It charges over HTTP in a step, and books in another.
const (
	roleVariable     = "IDEM_CRASHTEST_APP" // how the app makes its provider's keys
	databaseVariable = "IDEM_CRASHTEST_DATABASE"
	providerVariable = "IDEM_CRASHTEST_PROVIDER"

	derivedKeys = "derived keys"
	randomKeys  = "random keys"
)

// serveApp is the main function of the app.
func serveApp(keys string) error {
	ctx := context.Background()
	db, err := gorm.Open(postgres.Open(os.Getenv(databaseVariable)), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return err
	}
	st, err := gormstore.New(db)
	if err != nil {
		return err
	}
	if err := gormstore.Migrate(ctx, db); err != nil {
		return err
	}
	if err := db.AutoMigrate(&entry{}); err != nil {
		return err
	}
	idem, err := core.New(core.Config{
		Store:  st,
		Routes: core.Routes{"POST /pay": {Recovery: store.Resume, Lease: time.Second, Deadline: 10 * time.Second}},
	})
	if err != nil {
		return err
	}
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) { return customer, nil }), ginidem.Idempotent(idem))
	router.POST("/pay", func(c *gin.Context) {
		var in struct{ Order int }
		if err := c.ShouldBindJSON(&in); err != nil {
			c.AbortWithStatus(http.StatusBadRequest)
			return
		}
		ctx := c.Request.Context()
		charge, err := core.Call(ctx, "charge", func(ctx context.Context, key store.DerivedKey) (string, error) {
			if keys == randomKeys {
				return chargeOverHTTP(ctx, rand.Text(), in.Order)
			}
			return chargeOverHTTP(ctx, key.String(), in.Order)
		}, core.Dedup(time.Hour))
		if err == nil {
			err = gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
				_, err := gormstore.CreateOnce(tx, &entry{Paid: in.Order})
				return err
			})
		}
		if err != nil {
			c.AbortWithStatusJSON(http.StatusBadGateway, gin.H{"error": err.Error()})
			return
		}
		c.JSON(http.StatusCreated, gin.H{"charge": charge})
	})
	server := httptest.NewServer(router)
	fmt.Println("listening on", server.URL)
	select {} // until it is killed
}

func chargeOverHTTP(ctx context.Context, key string, order int) (id string, err error) {
	body := fmt.Appendf(nil, `{"key":"%s","order":%d}`, key, order)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv(providerVariable)+"/charges", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	err = json.NewDecoder(answer.Body).Decode(&id)
	return id, err
}

// processApp is the app, and a scenario for it. The provider is this process's.
func processApp(t *testing.T, keys string) (crashtest.App, crashtest.Scenario) {
	charges := newLedger()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Key   string
			Order int
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		charges.book(in.Key, in.Order)
		_ = json.NewEncoder(w).Encode("charge of " + in.Key)
	}))
	t.Cleanup(provider.Close)
	url := pgtest.URL(t)
	pool, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	self, err := os.Executable()
	require.NoError(t, err)

	app := crashtest.App{Command: func(ctx context.Context, g *crashtest.Gates) (*exec.Cmd, error) {
		database, err := g.Postgres(url)
		if err != nil {
			return nil, err
		}
		provider, err := g.HTTP(provider.URL)
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), roleVariable+"="+keys, databaseVariable+"="+database, providerVariable+"="+provider)
		return cmd, err
	}}
	return app, crashtest.Scenario{
		Request: newPayment,
		Effects: func(ctx context.Context, _ string, n int) (effects crashtest.Effects, err error) {
			if effects, err = charges.effects(n); err != nil {
				return nil, err
			}
			var entries int
			err = pool.QueryRowContext(ctx, "SELECT count(*) FROM entries WHERE paid = $1", n).Scan(&entries)
			effects["entries"] = entries
			return effects, err
		},
		Parallel: 6,
	}
}

// TestProcess crashes an app that is a process, with a provider that it calls over HTTP.
//
// CONTRACT
func TestProcess(t *testing.T) {
	app, scenario := processApp(t, derivedKeys)
	crashtest.Run(t, app, scenario)
}

// TestProcessMutant shows that a second charge is found, at the points at which it is made: from the end of the call until its
// result is durable.
func TestProcessMutant(t *testing.T) {
	app, scenario := processApp(t, randomKeys)
	wrong, err := crashtest.Violations(t.Context(), app, scenario)
	require.NoError(t, err)
	var points []string
	for point, found := range wrong {
		require.Regexp(t, `"ledger" is there [2-9] times`, strings.Join(found, "\n")) // 3: on a busy machine a lease has run out
		_, words, _ := strings.Cut(point, " ")
		points = append(points, words[:min(len(words), 25)])
	}
	require.Contains(t, points, "after call POST charges")
	require.Contains(t, points, "before COMMIT")
	require.NotContains(t, points, "before call POST charges")
	require.NotContains(t, points, "after COMMIT")
}

// TestAppsThatDoNotStart shows what is said of them.
func TestAppsThatDoNotStart(t *testing.T) {
	ends := crashtest.App{Command: func(ctx context.Context, _ *crashtest.Gates) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, "go", "no-such-command")
		return cmd, nil
	}}
	s := parking(t).scenario()
	_, err := crashtest.Violations(t.Context(), ends, s)
	require.ErrorContains(t, err, "the app has ended")
	require.ErrorContains(t, err, "no-such-command", "what it printed")

	_, err = crashtest.Violations(t.Context(), crashtest.App{}, crashtest.Scenario{Parallel: -1, Patience: -1})
	for _, field := range []string{"App.Command", "Scenario.Request", "Scenario.Effects", "Scenario.Parallel", "Patience"} {
		require.ErrorContains(t, err, field)
	}
	_, err = crashtest.Violations(t.Context(), crashtest.App{Command: ends.Command, URL: "http://127.0.0.1:1"}, s)
	require.ErrorContains(t, err, "Scenario.Parallel")
}

// TestScenariosThatProveNothing shows what is said of them.
func TestScenariosThatProveNothing(t *testing.T) {
	b := parking(t)
	blind := b.scenario()
	blind.Effects = func(context.Context, string, int) (crashtest.Effects, error) {
		return crashtest.Effects{"none": 0}, nil
	}
	_, err := crashtest.Violations(t.Context(), b.app(), blind)
	require.ErrorContains(t, err, "nothing is there after a command")

	ungated := crashtest.App{Handler: func(ctx context.Context, _ *crashtest.Gates) (http.Handler, error) {
		g := crashtest.NewGates()
		context.AfterFunc(ctx, g.Close)
		return b.handler(ctx, g)
	}}
	_, err = crashtest.Violations(t.Context(), ungated, b.scenario())
	require.ErrorContains(t, err, "no event has passed the gates")
}
