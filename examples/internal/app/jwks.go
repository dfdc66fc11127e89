package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// refreshEvery is the shortest time between two fetches. Anybody can make tokens with an unknown key: they cost the issuer
	// at most one request in this time.
	refreshEvery = time.Second

	// refreshWait is how long a token with an unknown key waits for a fetch. The fetch goes on without it.
	refreshWait = 3 * time.Second

	fetchTimeout = 15 * time.Second
	maxKeySet    = 1 << 20 // bytes
)

var errNoKey = errors.New("the issuer has no such key for signatures")

// remoteKeys are the keys of a JWKS address. They are fetched every hour, and when a token names an unknown key. One fetch
// answers all tokens that came before it. There is no budget of fetches: forged tokens could use it up, and tokens that the
// issuer has signed with a new key would be refused.
type remoteKeys struct {
	url    string
	client http.Client
	wanted chan struct{} // holds a token's wish for a fetch

	mu    sync.Mutex
	keys  []jwkset.JWK
	began time.Time     // the last fetch that has ended
	ended chan struct{} // is closed when the next one has
}

// newRemoteKeys fetches the keys, and keeps them up to date until ctx ends.
func newRemoteKeys(ctx context.Context, address string) (*remoteKeys, error) {
	if _, err := url.ParseRequestURI(address); err != nil {
		return nil, err
	}
	r := &remoteKeys{
		url: address, client: http.Client{Timeout: fetchTimeout}, wanted: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go r.keepUpToDate(ctx)
	return r, nil
}

func (r *remoteKeys) keepUpToDate(ctx context.Context) {
	for {
		began := time.Now()
		keys, err := r.fetch(ctx)
		if err != nil {
			slog.ErrorContext(ctx, "the keys of JWKS_URL could not be fetched", "error", err)
		}
		r.mu.Lock()
		if err == nil {
			r.keys = keys
		}
		close(r.ended)
		r.began, r.ended = began, make(chan struct{})
		r.mu.Unlock()

		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(began.Add(refreshEvery))):
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wanted:
		case <-time.After(time.Hour):
		}
	}
}

// fetch returns the issuer's keys for signatures. A key that cannot be read is ignored (RFC 7517, section 5).
func (r *remoteKeys) fetch(ctx context.Context) (keys []jwkset.JWK, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeySet+1))
	switch err := errors.Join(err, res.Body.Close()); {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the status is %d", res.StatusCode)
	case len(body) > maxKeySet:
		return nil, fmt.Errorf("the set is larger than %d bytes", maxKeySet)
	}
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	for i, text := range set.Keys {
		key, err := jwkset.NewJWKFromRawJSON(text, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
		if err != nil {
			slog.WarnContext(ctx, "a key of JWKS_URL is ignored", "number", i+1, "error", err)
			continue
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// key is a [jwt.Keyfunc].
func (r *remoteKeys) key(token *jwt.Token) (any, error) {
	arrived, patience := time.Now(), time.After(refreshWait)
	for {
		r.mu.Lock()
		keys, began, ended := r.keys, r.began, r.ended
		r.mu.Unlock()
		if found := keysFor(token, keys); len(found) > 0 {
			return jwt.VerificationKeySet{Keys: found}, nil
		}
		if began.After(arrived) {
			return nil, errNoKey
		}
		select {
		case r.wanted <- struct{}{}:
		default: // another token has asked
		}
		select {
		case <-ended:
		case <-patience:
			return nil, errNoKey
		}
	}
}

// keysFor returns the keys that may have signed the token: of its key id, if it has one, and for its algorithm.
func keysFor(token *jwt.Token, keys []jwkset.JWK) (found []jwt.VerificationKey) {
	id, named := token.Header["kid"]
	for _, key := range keys {
		is := key.Marshal()
		if (!named || id == is.KID) && (is.ALG == "" || is.ALG.String() == token.Method.Alg()) &&
			(is.USE == "" || is.USE == jwkset.UseSig) && (len(is.KEYOPS) == 0 || slices.Contains(is.KEYOPS, jwkset.KeyOpsVerify)) {
			found = append(found, key.Key())
		}
	}
	return found
}
