package crashtest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// bank is the app that the kit is tried on. It moves money, and runs in this process.
type bank struct {
	store    store.Operations // outlives the app, like ledger
	recovery store.Recovery
	pay      func(ctx context.Context, g *crashtest.Gates, order int) error
	effects  func(order int) (crashtest.Effects, error)
	guards   func(idem *core.Module, g *crashtest.Gates) []gin.HandlerFunc // default Idempotent
	change   func(s *crashtest.Scenario)                                   // default nothing
}

// ledger belongs to another service, which knows a repeated payment by its key.
type ledger struct {
	mu      sync.Mutex
	keys    map[string]bool
	entries map[int]int // by order
}

func newLedger() *ledger { return &ledger{keys: map[string]bool{}, entries: map[int]int{}} }

// book adds an entry, once per key. The key "" is never known.
func (l *ledger) book(key string, order int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key == "" || !l.keys[key] {
		l.keys[key] = true
		l.entries[order]++
	}
}

func (l *ledger) effects(order int) (crashtest.Effects, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return crashtest.Effects{"ledger": l.entries[order]}, nil
}

// inMemory is a store whose leases run out soon, although none can be configured to.
func inMemory() store.Operations {
	start := time.Now()
	return memstore.New(memstore.WithClock(func() time.Time { return start.Add(20 * time.Since(start)) }))
}

// parking is a bank on a Park route: the ledger cannot be asked twice.
func parking(*testing.T) *bank {
	l := newLedger()
	return &bank{
		store: inMemory(), recovery: store.Park, effects: l.effects,
		pay: func(_ context.Context, g *crashtest.Gates, order int) error {
			g.Around("book", func() { l.book("", order) })
			return nil
		},
	}
}

// resuming is a bank on a Resume route.
func resuming(*testing.T) *bank {
	l := newLedger()
	return &bank{
		store: inMemory(), recovery: store.Resume, effects: l.effects,
		pay: func(ctx context.Context, g *crashtest.Gates, order int) error {
			return core.CallDo(ctx, "book", func(_ context.Context, key store.DerivedKey) error {
				g.Around("book", func() { l.book(key.String(), order) })
				return nil
			}, core.Dedup(time.Hour))
		},
	}
}

type entry struct {
	gormstore.Once
	ID   uint
	Paid int
}

// rollingBack is a bank on a Rollback route.
func rollingBack(t *testing.T) *bank {
	t.Helper()
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "bank.db")+
		"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000)"), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	st, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.AutoMigrate(&entry{}))
	return &bank{
		store: st, recovery: store.Rollback,
		pay: func(ctx context.Context, _ *crashtest.Gates, order int) error {
			_, err := gormstore.CreateOnce(gormstore.Tx(ctx), &entry{Paid: order})
			return err
		},
		effects: func(order int) (crashtest.Effects, error) {
			var n int64
			err := db.Model(&entry{}).Where(&entry{Paid: order}).Count(&n).Error
			return crashtest.Effects{"ledger": int(n)}, err
		},
	}
}

var customer = core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}

// handler is a new instance of the bank.
func (b *bank) handler(ctx context.Context, g *crashtest.Gates) (http.Handler, error) {
	idem, err := core.New(core.Config{
		Store:  g.Store(b.store),
		Policy: core.Policy{Lease: time.Second, Deadline: 10 * time.Second},
		Routes: core.Routes{"POST /pay": {Recovery: b.recovery}},
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = idem.Run(ctx) }()
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) { return customer, nil }))
	if b.guards != nil {
		router.Use(b.guards(idem, g)...)
	} else {
		router.Use(ginidem.Idempotent(idem))
	}
	router.POST("/pay", func(c *gin.Context) {
		var in struct{ Order int }
		if err := errors.Join(c.ShouldBindJSON(&in)); err != nil {
			c.AbortWithStatus(http.StatusBadRequest)
			return
		}
		if err := b.pay(c.Request.Context(), g, in.Order); err != nil {
			c.AbortWithStatusJSON(http.StatusInternalServerError, gin.H{"error": err.Error()})
			return
		}
		c.JSON(http.StatusCreated, gin.H{"id": rand.Text(), "order": in.Order})
	})
	return router, nil
}

func (b *bank) app() crashtest.App { return crashtest.App{Handler: b.handler} }

func (b *bank) scenario() crashtest.Scenario {
	s := crashtest.Scenario{
		Request: newPayment,
		Effects: func(_ context.Context, _ string, n int) (crashtest.Effects, error) { return b.effects(n) },
		Unknown: b.recovery == store.Park, Parallel: 4, Patience: 5 * time.Second,
	}
	if b.change != nil {
		b.change(&s)
	}
	return s
}

func newPayment(ctx context.Context, url string, n int) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pay", bytes.NewReader(fmt.Appendf(nil, `{"order":%d}`, n)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", rand.Text())
	return r, nil
}
