package interop_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ginsessions "github.com/gin-contrib/sessions"
	"github.com/gin-contrib/sessions/cookie"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/gorilla/sessions"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/httpidem/chiidem"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// ownApp is an app of the kinds that docs/adopting.md shows without diffs. Each function on* mounts it on a router, and
// returns what the audit says. Its caller is what that page shows.
type ownApp struct {
	db      *gorm.DB
	idem    *core.Module
	failing atomic.Bool
}

func newOwnApp(t *testing.T) *ownApp {
	t.Helper()
	db := openMattn(t, mattnSettings)
	require.NoError(t, db.AutoMigrate(&newPayment{}))
	require.NoError(t, gormstore.Audit(t.Context(), db, &newPayment{}))
	store, err := gormstore.New(db)
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Observer: observer, Routes: core.Routes{
		"POST /payments": {Recovery: core.Rollback},
		"POST /likes":    {Unguarded: "goes in with the next release"},
	}})
	require.NoError(t, err)
	return &ownApp{db: db, idem: idem}
}

// book is what each handler does: it writes a row, and then the app may fail.
func (a *ownApp) book(ctx context.Context) (p newPayment, err error) {
	p.Amount = "2.00"
	if _, err := gormstore.CreateOnce(gormstore.Tx(ctx), &p); err != nil {
		return p, err
	}
	if a.failing.Load() {
		return p, errors.New("broken")
	}
	return p, nil
}

func (a *ownApp) payOnGin(c *gin.Context) {
	p, err := a.book(c.Request.Context())
	if err != nil {
		c.Status(http.StatusInternalServerError)
		return
	}
	c.JSON(http.StatusCreated, p.ID)
}

func (a *ownApp) payOnEcho(c echo.Context) error {
	p, err := a.book(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, p.ID)
}

func (a *ownApp) pay(w http.ResponseWriter, r *http.Request) {
	p, err := a.book(r.Context())
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(p.Amount))
}

func like(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// callers sign requests of two users; again is the first one, after another log-in or with another API key.
type callers struct{ first, again, second func(r *http.Request) }

// try checks what docs/adopting.md promises at the end of each of its ways.
func (a *ownApp) try(t *testing.T, app http.Handler, by callers) {
	t.Helper()
	send := func(path, key string, sign func(r *http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"amount": "2.00"}`))
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		if sign != nil {
			sign(r)
		}
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w
	}
	requireRows := func(want int64) {
		t.Helper()
		var rows int64
		require.NoError(t, a.db.Model(&newPayment{}).Count(&rows).Error)
		require.Equal(t, want, rows)
	}
	require.Contains(t, strings.Join(a.idem.Table(), "\n"), "POST /likes: not guarded yet")
	require.Equal(t, http.StatusNoContent, send("/likes", "", by.first).Code, "it needs no key")
	require.Equal(t, http.StatusUnauthorized, send("/payments", "key-1", nil).Code)
	require.Equal(t, http.StatusBadRequest, send("/payments", "", by.first).Code)
	requireRows(0)

	first := send("/payments", "key-1", by.first)
	require.Equal(t, http.StatusCreated, first.Code, first.Body)
	repeat := send("/payments", "key-1", by.again)
	require.Equal(t, http.StatusCreated, repeat.Code)
	require.Equal(t, first.Body.String(), repeat.Body.String())
	require.Equal(t, wire.ResultReused, repeat.Header().Get(wire.HeaderResult))
	requireRows(1)
	require.Equal(t, wire.ResultCreated, send("/payments", "key-1", by.second).Header().Get(wire.HeaderResult), "another caller")
	requireRows(2)

	a.failing.Store(true)
	require.Equal(t, http.StatusInternalServerError, send("/payments", "key-2", by.first).Code)
	requireRows(2)
	a.failing.Store(false)
	require.Equal(t, wire.ResultCreated, send("/payments", "key-2", by.first).Header().Get(wire.HeaderResult), "the key is free")
	requireRows(3)
}

// logIn returns a signer with a cookie that log-in makes.
func logIn(t *testing.T, app http.Handler, user string) func(r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login?user="+user, nil))
	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	return func(r *http.Request) { r.AddCookie(cookies[0]) }
}

// users are the ids that the log-in of these apps knows.
var users = map[string]int{"alice": 17, "bob": 18}

func (a *ownApp) onGinSessions() (*gin.Engine, error) {
	idem := a.idem
	caller := func(c *gin.Context) (authctx.Principal, error) {
		id, _ := ginsessions.Default(c).Get("user_id").(int)
		return authctx.User("https://shop.example", id) // nobody has logged in: 0, which is refused
	}
	r := gin.New()
	r.Use(ginsessions.Sessions("session", cookie.NewStore(secretKey))) // as before
	r.POST("/likes", gin.WrapF(like))                                  // as before
	money := r.Group("", ginidem.Bridge(caller, observer), ginidem.Idempotent(idem))
	money.POST("/payments", a.payOnGin)
	return r, ginidem.Audit(r, idem)
}

// CONTRACT O-2, S-1
func TestAdoptGinSessions(t *testing.T) {
	a := newOwnApp(t)
	app, err := a.onGinSessions()
	require.NoError(t, err)
	app.POST("/login", func(c *gin.Context) {
		session := ginsessions.Default(c)
		session.Set("user_id", users[c.Query("user")])
		session.Set("log-in", uuid.NewString()) // no two sessions are the same
		require.NoError(t, session.Save())
	})
	a.try(t, app, callers{logIn(t, app, "alice"), logIn(t, app, "alice"), logIn(t, app, "bob")})
}

func (a *ownApp) onEchoSessions(store sessions.Store) (*echo.Echo, error) {
	idem := a.idem
	caller := func(c echo.Context) (authctx.Principal, error) {
		session, err := store.Get(c.Request(), "session") // with echo-contrib: session.Get("session", c)
		if err != nil {
			return authctx.Principal{}, err
		}
		id, _ := session.Values["user_id"].(int)
		return authctx.User("https://shop.example", id) // nobody has logged in: 0, which is refused
	}
	e := echo.New()
	echoidem.TrackRoutes(e)                                    // for the audit, before the first route
	e.POST("/likes", echo.WrapHandler(http.HandlerFunc(like))) // as before
	e.POST("/payments", a.payOnEcho, echoidem.Bridge(caller, observer), echoidem.Idempotent(idem))
	return e, echoidem.Audit(e, idem)
}

// CONTRACT O-2, S-1
func TestAdoptEchoSessions(t *testing.T) {
	a := newOwnApp(t)
	store := sessions.NewCookieStore(secretKey)
	app, err := a.onEchoSessions(store)
	require.NoError(t, err)
	app.POST("/login", func(c echo.Context) error {
		session, err := store.Get(c.Request(), "session")
		require.NoError(t, err)
		session.Values["user_id"] = users[c.QueryParam("user")]
		session.Values["log-in"] = uuid.NewString() // no two sessions are the same
		return session.Save(c.Request(), c.Response())
	})
	a.try(t, app, callers{logIn(t, app, "alice"), logIn(t, app, "alice"), logIn(t, app, "bob")})
}

// ownAPIKeys is the app's own middleware.
func ownAPIKeys(c *gin.Context) {
	key, err := authctx.BearerToken(c.Request.Header)
	account, known := accounts[sha256.Sum256([]byte(key))]
	if err != nil || !known {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Set("account", account)
}

func (a *ownApp) onAPIKeys() (*gin.Engine, error) {
	idem := a.idem
	caller := func(c *gin.Context) (authctx.Principal, error) {
		return authctx.User("https://api.example", c.GetString("account")) // the account, not the API key
	}
	r := gin.New()
	r.Use(ownAPIKeys)                 // as before
	r.POST("/likes", gin.WrapF(like)) // as before
	money := r.Group("", ginidem.Bridge(caller, observer), ginidem.Idempotent(idem))
	money.POST("/payments", a.payOnGin)
	return r, ginidem.Audit(r, idem)
}

// CONTRACT O-2, S-2
func TestAdoptAPIKeys(t *testing.T) {
	a := newOwnApp(t)
	app, err := a.onAPIKeys()
	require.NoError(t, err)
	a.try(t, app, callers{bearer("sk_old"), bearer("sk_new"), bearer("sk_bob")})
}

type userKey struct{}

// ownJWT is the app's own middleware: tokens with a numeric user id, and no issuer.
func ownJWT(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var found userClaims
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, err := jwt.ParseWithClaims(token, &found, func(*jwt.Token) (any, error) { return secretKey, nil },
			jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())
		if err != nil {
			http.Error(w, "please log in", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, found.UserID)))
	})
}

// ownTokens are those of two users, and a second one of the first.
func ownTokens(t *testing.T) callers {
	t.Helper()
	sign := func(user string, ends time.Duration) func(r *http.Request) {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
			"user_id": users[user], "exp": time.Now().Add(ends).Unix(),
		}).SignedString(secretKey)
		require.NoError(t, err)
		return bearer(token)
	}
	return callers{sign("alice", time.Hour), sign("alice", 2*time.Hour), sign("bob", time.Hour)}
}

func (a *ownApp) onServeMux() (http.Handler, error) {
	idem, auth := a.idem, ownJWT
	caller := func(r *http.Request) (authctx.Principal, error) {
		id, _ := r.Context().Value(userKey{}).(uint) // as your middleware has put it there
		return authctx.User("https://shop.example", id)
	}
	mux := httpidem.NewRouter()                             // in place of http.NewServeMux()
	mux.Handle("POST /likes", auth(http.HandlerFunc(like))) // as before
	money := mux.Group("", auth, httpidem.Bridge(caller, observer), httpidem.Idempotent(idem))
	money.HandleFunc("POST /payments", a.pay)
	return mux, httpidem.Audit(mux, idem)
}

// CONTRACT O-2, S-1
func TestAdoptServeMux(t *testing.T) {
	a := newOwnApp(t)
	app, err := a.onServeMux()
	require.NoError(t, err)
	a.try(t, app, ownTokens(t))
}

func (a *ownApp) onChi() (http.Handler, error) {
	idem, auth := a.idem, ownJWT
	caller := func(r *http.Request) (authctx.Principal, error) {
		id, _ := r.Context().Value(userKey{}).(uint) // as your middleware has put it there
		return authctx.User("https://shop.example", id)
	}
	r := chi.NewRouter()
	r.Use(auth)            // as before
	r.Post("/likes", like) // as before
	r.Group(func(r chi.Router) {
		r.Use(httpidem.Bridge(caller, observer), httpidem.Idempotent(idem)) // in a Group, where chi knows the route
		r.Post("/payments", a.pay)
	})
	return r, chiidem.Audit(r, idem)
}

// CONTRACT O-2, S-1
func TestAdoptChi(t *testing.T) {
	a := newOwnApp(t)
	app, err := a.onChi()
	require.NoError(t, err)
	a.try(t, app, ownTokens(t))
}
