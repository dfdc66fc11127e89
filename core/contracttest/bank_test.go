package contracttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/contracttest"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// bank is the app that the suite is tried on, without its web framework: it books payments.
type bank struct {
	store    store.Operations
	recovery core.Recovery
	book     func(ctx context.Context) error
	booked   func(ctx context.Context) (int, error)
	idem     *core.Module
	verifier *authctx.Verifier
	log      *syncBuffer
	failed   sync.Map // the operations that have
}

// inMemory is a bank without a database.
func inMemory(*testing.T) *bank {
	var entries atomic.Int64
	return &bank{
		store: memstore.New(), recovery: core.Park,
		book:   func(context.Context) error { entries.Add(1); return nil },
		booked: func(context.Context) (int, error) { return int(entries.Load()), nil },
	}
}

// inSteps is a bank in memory that books in a step, and whose failed attempts can go on.
func inSteps(t *testing.T) *bank {
	b := inMemory(t)
	b.recovery = core.Resume
	book := b.book
	b.book = func(ctx context.Context) error {
		return core.CallDo(ctx, "book", func(ctx context.Context, _ core.DerivedKey) error { return book(ctx) },
			core.Dedup(time.Hour))
	}
	return b
}

// entry is a row of the bank's ledger.
type entry struct {
	gormstore.Once
	ID uint
}

// onSQLite is a bank whose rows commit together with the recorded answers.
func onSQLite(t *testing.T) *bank {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file:"+t.TempDir()+"/bank.db?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"),
		&gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	pool.SetMaxOpenConns(8)
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&entry{}))
	return &bank{
		store: store, recovery: core.Rollback,
		book: func(ctx context.Context) error {
			_, err := gormstore.CreateOnce(gormstore.Tx(ctx), &entry{})
			return err
		},
		booked: func(ctx context.Context) (int, error) {
			var n int64
			err := db.WithContext(ctx).Model(&entry{}).Count(&n).Error
			return int(n), err
		},
	}
}

// smallBody is the cap of the routes, timedKeyAge the age of the timed keys. The adapters and the example apps run the suite
// on routes with the default cap (internal/adaptertest).
const (
	smallBody   = 4 << 10
	timedKeyAge = 2 * time.Hour
)

// Issuers and the bank's audience.
const (
	issuer      = "https://issuer.example"
	otherIssuer = "https://other.example"
	audience    = "bank"
)

var secret = []byte("a secret of thirty-two bytes or so")

// open makes the bank's module and verifier. change changes the configuration, where it is not nil.
func (b *bank) open(t *testing.T, change func(*core.Config)) {
	t.Helper()
	b.log = &syncBuffer{}
	observer := core.LogObserver(slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	customer := []string{"customer"}
	cfg := core.Config{Store: b.store, Observer: observer, Policy: core.Policy{KeyAge: timedKeyAge}, Routes: core.Routes{
		"POST /v1/accounts/:id/payments": {Recovery: b.recovery, Roles: customer, MaxBody: smallBody},
		"PUT /v1/accounts/:id/payments":  {Recovery: b.recovery, Roles: customer, MaxBody: smallBody},
		"PUT /v1/receipts":               {Recovery: b.recovery, Roles: customer, MaxBody: smallBody, KeyFormat: core.UUIDKey},
		"POST /v1/transfers":             {Recovery: b.recovery, Roles: customer, MaxBody: smallBody, KeyFormat: core.TimedKey},
	}}
	if change != nil {
		change(&cfg)
	}
	var err error
	b.idem, err = core.New(cfg)
	require.NoError(t, err)

	var issuers []authctx.Config
	for _, name := range []string{issuer, otherIssuer} {
		issuers = append(issuers, authctx.Config{
			Issuer: name, Audience: []string{audience}, Algorithms: []string{"HS256"}, TenantClaim: "tenant",
			Keyfunc: func(*jwt.Token) (any, error) { return secret, nil },
		})
	}
	b.verifier, err = authctx.New(issuers...)
	require.NoError(t, err)
}

// A refusal is the answer with which a handler refuses a command.
type refusal struct {
	status int
	code   string
}

func (r *refusal) Error() string { return r.code }

var (
	errDeclined = &refusal{http.StatusPaymentRequired, "declined"}
	errInvalid  = &refusal{http.StatusUnprocessableEntity, "invalid"}
	errCutOff   = &refusal{http.StatusInternalServerError, "broken"}
)

// payment is the body of a command, and of its answer.
type payment struct {
	Order  string `json:"order"`
	Amount string `json:"amount"`
	Method string `json:"method"`
	ID     string `json:"id"`
}

// payments numbers the answers, so that no two are equal by chance.
var payments atomic.Int64

// pay is what all handlers do.
func (b *bank) pay(ctx context.Context, in payment) (payment, error) {
	if in.Order == "" || in.Amount == "" {
		return payment{}, errInvalid
	}
	if in.Method == "declined" {
		return payment{}, errDeclined
	}
	if err := b.book(ctx); err != nil {
		return payment{}, err
	}
	switch in.Method {
	case "slow":
		time.Sleep(500 * time.Millisecond)
	case "fails":
		operation, _ := core.Operation(ctx)
		if _, again := b.failed.LoadOrStore(operation, true); !again || b.recovery != core.Resume {
			return payment{}, errCutOff
		}
	}
	in.ID = strconv.FormatInt(payments.Add(1), 10)
	return in, nil
}

// upload is what the handlers of the multipart route do.
func (b *bank) upload(r *http.Request) (payment, error) {
	file, _, err := r.FormFile("receipt")
	if err != nil {
		return payment{}, errInvalid
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(file)
	if err != nil {
		return payment{}, err
	}
	return b.pay(r.Context(), payment{Order: string(content), Amount: r.FormValue("amount")})
}

// statusOf is the status of the answer to an error.
func statusOf(err error) (status int, body map[string]string) {
	if known, ok := errors.AsType[*refusal](err); ok {
		return known.status, map[string]string{"error": known.code, "at": time.Now().Format(time.RFC3339Nano)}
	}
	return http.StatusInternalServerError, map[string]string{"error": "internal"}
}

// method makes bodies that ask for a method of payment.
func method(name string) contracttest.Body {
	return func(n int) (string, []byte) {
		return "application/json", fmt.Appendf(nil, `{"order":"order-%d","amount":"12.50","method":"%s"}`, n, name)
	}
}

func receipt(n int) (contentType string, body []byte) {
	const boundary = "a-boundary-of-the-client"
	lines := []string{
		"--" + boundary, `Content-Disposition: form-data; name="amount"`, "", "12.50",
		"--" + boundary, fmt.Sprintf(`Content-Disposition: form-data; name="receipt"; filename="%d.txt"`, n),
		"Content-Type: text/plain", "", fmt.Sprintf("receipt %d", n),
		"--" + boundary + "--", "",
	}
	return "multipart/form-data; boundary=" + boundary, []byte(strings.Join(lines, "\r\n"))
}

// app is the bank behind handler, as the suite needs it.
func (b *bank) app(t *testing.T, handler http.Handler) contracttest.App {
	t.Helper()
	account := contracttest.Route{
		Path: "/v1/accounts/a/payments", OtherPath: "/v1/accounts/b/payments", Recovery: b.recovery, MaxBody: smallBody,
		Body: method("card"), Declined: method("declined"), Fails: method("fails"), Effects: b.booked,
	}
	put, timed := account, account
	put.Method = http.MethodPut
	timed.Path, timed.OtherPath, timed.KeyFormat, timed.KeyAge = "/v1/transfers", "", core.TimedKey, timedKeyAge
	return contracttest.App{
		Handler: handler, OperationPath: "/v1/operations/{id}", OwnOperationPath: "/v1/operation", Logs: b.log.String, Tokens: tokens(t),
		Routes: []contracttest.Route{account, {
			Method: http.MethodPut, Path: "/v1/receipts", Recovery: b.recovery, MaxBody: smallBody, KeyFormat: core.UUIDKey,
			Body: receipt, Effects: b.booked,
		}, timed, put},
	}
}

func tokens(t *testing.T) contracttest.Tokens {
	t.Helper()
	var issued atomic.Int64
	sign := func(method jwt.SigningMethod, key any, change jwt.MapClaims) string {
		claims := jwt.MapClaims{
			"iss": issuer, "aud": audience, "sub": "1", "tenant": "t-1", "roles": []string{"customer"},
			"exp": time.Now().Add(time.Hour).Unix(), "jti": strconv.FormatInt(issued.Add(1), 10),
		}
		maps.Copy(claims, change)
		token, err := jwt.NewWithClaims(method, claims).SignedString(key)
		require.NoError(t, err)
		return token
	}
	good := func(n int, change jwt.MapClaims) string {
		change["sub"] = strconv.Itoa(n)
		return sign(jwt.SigningMethodHS256, secret, change)
	}
	return contracttest.Tokens{
		Of:          func(n int) string { return good(n, jwt.MapClaims{}) },
		OtherIssuer: func(n int) string { return good(n, jwt.MapClaims{"iss": otherIssuer}) },
		OtherTenant: func(n int) string { return good(n, jwt.MapClaims{"tenant": "t-2"}) },
		Demoted:     func(n int) string { return good(n, jwt.MapClaims{"roles": []string{"visitor"}}) },
		Refused: map[string]string{
			"expired":         good(1, jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}),
			"unknown issuer":  good(1, jwt.MapClaims{"iss": "https://nobody.example"}),
			"other audience":  good(1, jwt.MapClaims{"aud": "shop"}),
			"no subject":      sign(jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": ""}),
			"alg none":        sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil),
			"other algorithm": sign(jwt.SigningMethodHS512, secret, nil),
			"other secret":    sign(jwt.SigningMethodHS256, []byte("another secret of thirty-two bytes"), nil),
		},
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) printf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(&b.buffer, format, args...)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
