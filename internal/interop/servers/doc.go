// Package servers tries frameworks that register their routes on a mux of net/http on the routers of httpidem. Everything is
// in its tests.
package servers
