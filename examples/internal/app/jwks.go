package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"
)

const (
	// refreshEvery is the shortest time between two fetches for tokens with an unknown key. Anybody can make such tokens:
	// they cost the issuer at most one request in this time.
	refreshEvery = time.Second

	// refreshWait is how long a token with an unknown key waits for that.
	refreshWait = 3 * refreshEvery
)

// remoteKeys are the keys of a JWKS address. They are fetched every hour, and when a token names an unknown key. One fetch
// answers all tokens that came before it. There is no budget of fetches: forged tokens could use it up, and tokens that the
// issuer has signed with a new key would be refused.
type remoteKeys struct {
	known, fetched keyfunc.Keyfunc // the same keys: as they are, and fetched again if the requested one is missing
	turn           chan struct{}   // holds a token during a fetch
	began          time.Time       // the last fetch
}

// newRemoteKeys fetches the keys, and keeps them up to date until ctx ends.
func newRemoteKeys(ctx context.Context, url string) (*remoteKeys, error) {
	storage, err := jwkset.NewStorageFromHTTP(url, jwkset.HTTPClientStorageOptions{
		Ctx: ctx, HTTPTimeout: 5 * time.Second, NoErrorReturnFirstHTTPReq: true, RefreshInterval: time.Hour,
		RefreshErrorHandler: func(ctx context.Context, err error) {
			slog.ErrorContext(ctx, "the keys of JWKS_URL could not be fetched", "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	r := &remoteKeys{turn: make(chan struct{}, 1)}
	if r.known, err = keysOf(ctx, url, storage, nil); err != nil {
		return nil, err
	}
	r.fetched, err = keysOf(ctx, url, storage, rate.NewLimiter(rate.Inf, 1))
	return r, err
}

// keysOf reads keys from a storage. With a limiter, it fetches the keys if the requested one is missing.
func keysOf(ctx context.Context, url string, storage jwkset.Storage, limiter *rate.Limiter) (keyfunc.Keyfunc, error) {
	client, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs: map[string]jwkset.Storage{url: storage}, RefreshUnknownKID: limiter,
	})
	if err != nil {
		return nil, err
	}
	return keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: client})
}

// key is a [jwt.Keyfunc].
func (r *remoteKeys) key(token *jwt.Token) (any, error) {
	arrived := time.Now()
	key, err := r.known.Keyfunc(token)
	if err == nil || !errors.Is(err, jwkset.ErrKeyNotFound) {
		return key, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreshWait)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, err
	}
	if r.began.After(arrived) { // another token's fetch has answered this one, too
		return r.known.Keyfunc(token)
	}
	select {
	case <-time.After(time.Until(r.began.Add(refreshEvery))):
	case <-ctx.Done():
		return nil, err
	}
	r.began = time.Now()
	return r.fetched.KeyfuncCtx(ctx)(token)
}
