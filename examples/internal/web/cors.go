package web

import "net/http"

// CORS lets the pages of one origin call the API with a token and a key, and read the headers that tell them what to do.
// Without an origin it lets none. It stands in front of the router, so that a refusal has the headers too.
func CORS(origin string, next http.Handler) http.Handler {
	if origin == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		if r.Header.Get("Origin") != origin {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers",
			"Idempotency-Key, Idempotency-Problem, Idempotency-Result, Idempotent-Replayed, Retry-After, Location, Link, "+
				"WWW-Authenticate")
		if r.Method != http.MethodOptions {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}
