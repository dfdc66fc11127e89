package interop_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// padding is the length of what makes an answer so long that a cut can fall into its body.
const padding = 4000

// retryAfter is what the service asks its clients to wait.
const retryAfter = time.Second

// sale is a row. Nothing in the table keeps an order from being charged twice: a double must show.
type sale struct {
	ID     string `json:"id" gorm:"primaryKey"`
	Order  string `json:"order"`
	Amount int64  `json:"amount"`
	Pad    string `json:"pad" gorm:"-"`
}

// market is a guarded API on PostgreSQL: POST /v1/charges takes JSON, or a form as Stripe's clients send it.
type market struct {
	handler http.Handler
	db      *gorm.DB
	back    *cutproxy.Proxy // between the service and PostgreSQL
	gates   sync.Map        // order: *gate
}

// gate holds the handler of an order.
type gate struct{ entered, open chan struct{} }

func newMarket(t *testing.T, render func(*http.Request, *core.Problem) *core.Reply) *market {
	t.Helper()
	direct := pgtest.URL(t)
	address, err := url.Parse(direct)
	require.NoError(t, err)
	back, err := cutproxy.New(address.Host, nil)
	require.NoError(t, err)
	t.Cleanup(back.Close)
	address.Host = back.Addr()

	db := openAt(t, address.String())
	require.NoError(t, gormstore.Migrate(t.Context(), db))
	require.NoError(t, db.Use(gormstore.WriteGuard()))
	require.NoError(t, db.AutoMigrate(&sale{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	idem, err := core.New(core.Config{
		Store: store, RetryAfter: retryAfter, RenderProblem: render,
		Routes: core.Routes{"POST /v1/charges": {Recovery: core.Rollback}, "POST /v1/parked": {Recovery: core.Park}},
	})
	require.NoError(t, err)

	s := &market{db: openAt(t, direct), back: back}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	find := func(*gin.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: "https://api.example", Subject: "acct_1"}, nil
	}
	v1 := r.Group("/v1", ginidem.Bridge(find), ginidem.Idempotent(idem))
	v1.POST("/charges", s.charge)
	v1.POST("/parked", func(c *gin.Context) { c.AbortWithStatus(http.StatusInternalServerError) }) // after its calls
	require.NoError(t, ginidem.Audit(r, idem))
	s.handler = r
	return s
}

func openAt(t *testing.T, address string) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(postgres.Open(address), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	pool.SetMaxOpenConns(4)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return db
}

// charge books an order. The amount 402 is refused.
func (s *market) charge(c *gin.Context) {
	made := sale{ID: "ch_" + strings.ToLower(rand.Text()), Pad: strings.Repeat("x", padding)}
	if c.ContentType() == gin.MIMEJSON {
		if err := c.ShouldBindJSON(&made); err != nil {
			c.AbortWithStatus(http.StatusBadRequest)
			return
		}
	} else {
		made.Order = c.PostForm("order")
		made.Amount, _ = strconv.ParseInt(c.PostForm("amount"), 10, 64)
	}
	if g, ok := s.gates.Load(made.Order); ok {
		g := g.(*gate)
		close(g.entered)
		<-g.open
	}
	if made.Amount == http.StatusPaymentRequired {
		c.JSON(http.StatusPaymentRequired, gin.H{"error": gin.H{"type": "card_error", "code": "card_declined"}})
		return
	}
	if err := gormstore.Tx(c.Request.Context()).Create(&made).Error; err != nil {
		c.AbortWithStatus(http.StatusInternalServerError)
		return
	}
	c.JSON(http.StatusCreated, made)
}

// sold are the ids of an order's sales.
func (s *market) sold(t *testing.T, order string) (ids []string) {
	t.Helper()
	require.NoError(t, s.db.Model(&sale{}).Where(&sale{Order: order}).Pluck("id", &ids).Error)
	return ids
}

// exchange is a request of a client, and its answer.
type exchange struct {
	key        string
	arrived    time.Time
	answered   time.Time // before a byte of the answer went
	status     int
	code       string // of a problem of the library
	retryAfter string
}

// front is the service as one client sees it. All but visits is set before it listens.
type front struct {
	market  *market
	path    string        // what the client takes for /v1/charges
	plan    cutproxy.Plan // of the client's connections; nil cuts none
	gateway bool          // loses the first answer, and says 502 instead
	seen    func()        // called before the first answer goes

	mu        sync.Mutex
	exchanges []exchange
}

// listen starts the front, and returns where its client finds it.
func (f *front) listen(t *testing.T) (url string) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	proxy, err := cutproxy.New(server.Listener.Addr().String(), f.plan)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	return "http://" + proxy.Addr() + "/v1/charges"
}

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := exchange{key: r.Header.Get("Idempotency-Key"), arrived: time.Now()}
	answer := httptest.NewRecorder()
	r.URL.Path = f.path
	f.market.handler.ServeHTTP(answer, r)
	f.mu.Lock()
	n := len(f.exchanges) + 1
	if n == 1 && f.gateway {
		answer = httptest.NewRecorder()
		answer.WriteHeader(http.StatusBadGateway)
	}
	v.answered, v.status, v.retryAfter = time.Now(), answer.Code, answer.Header().Get("Retry-After")
	v.code = codeOf(answer.Body.Bytes())
	f.exchanges = append(f.exchanges, v)
	f.mu.Unlock()
	if n == 1 && f.seen != nil {
		f.seen()
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (f *front) log() []exchange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exchanges
}

// codeOf is the code of a problem, in the library's form or in Stripe's.
func codeOf(body []byte) string {
	var problem struct {
		Code  string
		Error struct{ Code string }
	}
	_ = json.Unmarshal(body, &problem) // a charge has none
	return problem.Code + problem.Error.Code
}

// cutAfter cuts the first connection when so many bytes of its answer have arrived.
func cutAfter(bytes int64) cutproxy.Plan {
	return func(connection int) cutproxy.Fate {
		if connection > 0 {
			return cutproxy.Fate{}
		}
		return cutproxy.Fate{Cut: cutproxy.ToClient, After: bytes}
	}
}

// send sends a command past the client under test, as somebody who came before it.
func (f *front) send(ctx context.Context, key, contentType, body string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, f.path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Idempotency-Key", key)
	f.market.handler.ServeHTTP(httptest.NewRecorder(), r)
}
