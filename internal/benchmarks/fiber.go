package main

import (
	"fmt"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/valyala/fasthttp"

	"github.com/auth19/idem/core"
)

// fiberApp is a handler behind gofiber's idempotency middleware, as it comes: answers in the memory of the process.
type fiberApp struct {
	handle fasthttp.RequestHandler
	body   []byte
	runs   int // of the handler; for one client
}

func newFiberApp(body []byte) *fiberApp {
	a := &fiberApp{body: body}
	f := fiber.New()
	handler := func(c fiber.Ctx) error {
		a.runs++
		_ = c.Body()
		c.Set(fiber.HeaderContentType, "application/json")
		return c.Status(fiber.StatusCreated).Send(body)
	}
	f.Post(bare, handler)
	f.Post(guarded, idempotency.New(idempotency.Config{KeyHeader: core.DefaultHeader}), handler)
	a.handle = f.Handler()
	return a
}

// send calls the app in this process, without a network.
func (a *fiberApp) send(path, key string) error {
	var c fasthttp.RequestCtx
	c.Request.Header.SetMethod(fiber.MethodPost)
	c.Request.SetRequestURI(path)
	c.Request.Header.SetContentType("application/json")
	c.Request.Header.Set(core.DefaultHeader, key)
	c.Request.SetBodyRaw(a.body)
	a.handle(&c)
	if status := c.Response.StatusCode(); status != fiber.StatusCreated {
		return fmt.Errorf("gofiber: the answer is %d: %s", status, c.Response.Body())
	}
	return nil
}

// fiberSides are its handler without and with the middleware.
func fiberSides(body []byte, spread int) (alone, firsts, replays side) {
	a := newFiberApp(body)
	turnOf := func(name string, prepare func(a *fiberApp) (next func() string, err error)) side {
		return side{name: name, start: func() (func() error, error) {
			fresh := newFiberApp(body)
			next, err := prepare(fresh)
			return func() error { return fresh.send(guarded, next()) }, err
		}}
	}
	firsts = turnOf("gofiber, first request", func(*fiberApp) (func() string, error) { return newKey, nil })
	replays = turnOf("gofiber, replay", func(a *fiberApp) (func() string, error) {
		known := make([]string, spread)
		for i := range known {
			known[i] = newKey()
			if err := a.send(guarded, known[i]); err != nil {
				return nil, err
			}
		}
		n := 0
		return func() string { n++; return known[n%spread] }, nil
	})
	return always("gofiber, handler alone", func() error { return a.send(bare, newKey()) }), firsts, replays
}
