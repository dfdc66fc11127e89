// Package calls calls other services.
package calls

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/ginidem"
)

// doer is an interface of the app's own.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

type app struct {
	client   doer
	idem     *idemclient.Client
	provider *provider
}

var policies = core.Routes{
	"POST /rollback":  {Recovery: core.Rollback},
	"POST /goroutine": {Recovery: core.Rollback},
	"POST /layers":    {Recovery: core.Resume},
	"POST /resume":    {Recovery: core.Resume},
	"POST /park":      {Recovery: core.Park},
	"POST /listed":    {Recovery: core.Rollback},
}

func mount(r *gin.Engine, idem *core.Module, client *idemclient.Client) {
	a := &app{http.DefaultClient, client, &provider{&http.Client{}}}
	r.POST("/quote", a.rollback)
	g := r.Group("", ginidem.Idempotent(idem))
	g.POST("/rollback", a.rollback)   // guarded POST /rollback
	g.POST("/goroutine", a.goroutine) // guarded POST /goroutine
	g.POST("/layers", a.layers)       // guarded POST /layers
	g.POST("/resume", a.resume)       // guarded POST /resume
	g.POST("/park", a.park)           // guarded POST /park
	g.POST("/listed", a.listed)       // guarded POST /listed
}

func (a *app) rollback(c *gin.Context) {
	r, _ := http.NewRequestWithContext(c.Request.Context(), http.MethodPost, "https://pay.example/charges", nil)
	_, _ = a.client.Do(r)                              // want `straycall: Do calls another service outside of core.Call.*POST /rollback`
	_, _ = http.DefaultClient.Do(r)                    // want `straycall: Do calls`
	_, _ = http.Post("", "", c.Request.Body)           // want `straycall: Post calls`
	_, _ = http.DefaultTransport.RoundTrip(r)          // want `straycall: RoundTrip calls`
	_, _ = a.idem.Do(c.Request.Context(), "charge", r) // want `straycall: Do calls`
	//idemvet:ignore an exchange rate, from a cache in this house
	_, _ = http.Get("https://rates.example")
	_, _ = http.ReadResponse(nil, r)
}

func (a *app) goroutine(*gin.Context) {
	go func() {
		_, _ = http.Get("https://mail.example") // want `straycall: Get in a goroutine`
	}()
}

type provider struct{ client *http.Client }

func (p *provider) charge(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pay.example", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	_, err = p.client.Do(r) // want `straycall: Do calls.*POST /layers: layers > charge`
	return err
}

func (a *app) layers(c *gin.Context) { _ = a.provider.charge(c.Request.Context()) }

func (a *app) resume(c *gin.Context) {
	_ = core.CallDo(c.Request.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) error {
		return a.provider.charge(ctx)
	})
}

func (a *app) park(c *gin.Context) { _ = a.provider.charge(c.Request.Context()) }

// listed uses a package that the test lists as a client.
func (a *app) listed(*gin.Context) {
	_, _ = uuid.NewRandom() // want `straycall: NewRandom calls`
	_ = uuid.NewString()
	_, _ = uuid.Parse("")
}
