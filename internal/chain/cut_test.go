package chain

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/internal/cutproxy"
)

// till is a service in this process that counts how often each order was paid.
type till struct {
	addr    string
	arrived atomic.Int64 // requests, answered by now

	mu   sync.Mutex
	paid map[string]int
}

func newTill(t *testing.T) *till {
	idem, err := core.New(core.Config{Store: memstore.New(), Policy: core.Policy{Recovery: core.Park}})
	require.NoError(t, err)
	s := &till{paid: map[string]int{}}
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			defer s.arrived.Add(1)
			return next(c)
		}
	})
	caller := func(echo.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}, nil
	}
	e.POST("/orders/:id/pay", func(c echo.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paid[c.Param("id")]++
		return c.JSON(http.StatusCreated, map[string]any{"order": c.Param("id"), "receipt": strings.Repeat("x", 100)})
	}, echoidem.Bridge(caller), echoidem.Idempotent(idem))
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	return s
}

// times is how often an order was paid.
func (s *till) times(order string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paid[order]
}

// newPayer returns a function that pays for an order by way of a proxy.
func newPayer(t *testing.T, p *cutproxy.Proxy) func(t *testing.T, order string) idemclient.Result {
	transport := &http.Transport{DisableKeepAlives: true} // a connection for each attempt
	t.Cleanup(transport.CloseIdleConnections)
	client, err := idemclient.New(idemclient.Config{Transport: transport, FirstPause: time.Millisecond})
	require.NoError(t, err)
	return func(t *testing.T, order string) idemclient.Result {
		r, err := http.NewRequest(http.MethodPost, "http://"+p.Addr()+"/orders/"+order+"/pay", strings.NewReader(`{"a":1}`))
		require.NoError(t, err)
		response, err := client.Do(t.Context(), "pay "+order, r)
		require.NoError(t, err, order)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusCreated, response.StatusCode, "%s: %s", order, body)
		require.Contains(t, string(body), `"order":"`+order+`"`)
		return idemclient.ResultOf(response)
	}
}

// The first connection of each command breaks after one byte more, in the request and in the answer, its head and its
// body, until none breaks: half an answer is never taken for one, and each command is carried out once.
//
// CONTRACT C-2, M-3, H-5, R-5
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for name, direction := range map[string]cutproxy.Direction{"request": cutproxy.ToServer, "answer": cutproxy.ToClient} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTill(t)
			p, err := cutproxy.New(s.addr, nil)
			require.NoError(t, err)
			t.Cleanup(p.Close)
			pay := newPayer(t, p)
			replays := 0
			for after, broken := 0, true; broken; after++ {
				first := true
				p.SetPlan(func(int) cutproxy.Fate {
					fate := cutproxy.Fate{}
					if first {
						fate = cutproxy.Fate{Cut: direction, After: int64(after)}
					}
					first = false
					return fate
				})
				order := fmt.Sprint(name, "-", after)
				cuts := p.Stats().Cut
				result := pay(t, order)
				require.Equal(t, 1, s.times(order), order)
				broken = p.Stats().Cut > cuts
				if result.Replayed {
					replays++
				}
				if !broken {
					require.Equal(t, 1, result.Attempts)
					require.Greater(t, after, 100)
				}
			}
			if direction == cutproxy.ToClient {
				require.Greater(t, replays, 100)
			}
		})
	}
}

// Whatever a client sends arrives twice, at the same time.
//
// CONTRACT M-6, C-2
func TestEverythingIsSentTwice(t *testing.T) {
	t.Parallel()
	s := newTill(t)
	p, err := cutproxy.New(s.addr, func(int) cutproxy.Fate { return cutproxy.Fate{Twice: true} })
	require.NoError(t, err)
	t.Cleanup(p.Close)
	pay := newPayer(t, p)
	const orders = 100
	t.Run("pay", func(t *testing.T) {
		for i := range orders {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				pay(t, fmt.Sprint("order-", i))
			})
		}
	})
	doubled := int64(p.Stats().Doubled)
	require.GreaterOrEqual(t, doubled, int64(orders))
	require.Eventually(t, func() bool { return s.arrived.Load() == 2*doubled }, 10*time.Second, time.Millisecond)
	for i := range orders {
		require.Equal(t, 1, s.times(fmt.Sprint("order-", i)), i)
	}
}
