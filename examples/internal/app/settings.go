package app

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/gormstore"
)

// developmentSecret signs the tokens of an app that was started without a JWT_SECRET.
const developmentSecret = "development-secret-that-everybody-knows"

// minSecret is the shortest JWT_SECRET: with a shorter one, no token is accepted.
const minSecret = sha256.Size

// Settings are the settings of the app, from environment variables.
type Settings struct {
	Addr      string           // ADDR, default 127.0.0.1:8080; port 0 picks one
	Database  database.Address // DATABASE_URL
	JWTSecret string           // JWT_SECRET, at least 32 bytes, default a development secret
	JWKSURL   string           // JWKS_URL, default empty
	Lease     time.Duration    // LEASE, default 30 s
	Deadline  time.Duration    // DEADLINE, default 60 s
	Retention time.Duration    // RETENTION, default 72 h
	KeyAge    time.Duration    // KEY_AGE, default 0: any key; else only timed keys that are not older
	Stall     time.Duration    // STALL, default 15 s: after it a connection that passes nothing is replaced
	Attempts  int              // ATTEMPTS, default 10: after them a refund is parked
	Origin    string           // CORS_ORIGIN: an origin whose pages may call the API, default none
	Unsafe    bool             // UNSAFE_SIMULATOR, default 0

	// PROVIDER_URL and PROVIDER_TOKEN: another service instead of the simulated provider, default none.
	ProviderURL, ProviderToken string
}

// LoadSettings reads the settings. The error is one line that names the variable and what it should be.
func LoadSettings(getenv func(name string) string) (Settings, error) {
	s := Settings{
		Addr:      cmp.Or(getenv("ADDR"), "127.0.0.1:8080"),
		JWTSecret: cmp.Or(getenv("JWT_SECRET"), developmentSecret),
		JWKSURL:   getenv("JWKS_URL"),
		Origin:    getenv("CORS_ORIGIN"),

		ProviderURL: strings.TrimSuffix(getenv("PROVIDER_URL"), "/"), ProviderToken: getenv("PROVIDER_TOKEN"),
	}
	if s.JWKSURL == "" && len(s.JWTSecret) < minSecret {
		return Settings{}, fmt.Errorf("JWT_SECRET: it has %d bytes; HS256 needs at least %d random ones (RFC 7518, section 3.2), "+
			"such as of: openssl rand -hex 32", len(s.JWTSecret), minSecret)
	}
	address, err := database.Parse(getenv("DATABASE_URL"))
	if err != nil {
		return Settings{}, err
	}
	s.Database = address
	for _, d := range []struct {
		name            string
		value           *time.Duration
		unset, min, max time.Duration
	}{
		{"LEASE", &s.Lease, store.DefaultLease, time.Second, time.Hour},
		{"DEADLINE", &s.Deadline, store.DefaultDeadline, time.Second, 24 * time.Hour},
		{"RETENTION", &s.Retention, store.DefaultRetention, store.MinRetention, store.MaxRetention},
		{"KEY_AGE", &s.KeyAge, 0, store.MinKeyAge, store.MinRetention},
		{"STALL", &s.Stall, gormstore.DefaultStall, time.Second, time.Hour},
	} {
		*d.value = d.unset
		if text := getenv(d.name); text != "" {
			parsed, err := time.ParseDuration(text)
			if err != nil || parsed < d.min || parsed > d.max {
				return Settings{}, fmt.Errorf("%s: %q is not a duration from %v to %v, such as %v", d.name, text, d.min, d.max,
					cmp.Or(d.unset, d.max))
			}
			*d.value = parsed
		}
	}
	if s.Attempts, err = strconv.Atoi(cmp.Or(getenv("ATTEMPTS"), strconv.Itoa(store.DefaultMaxAttempts))); err != nil ||
		s.Attempts < 1 || s.Attempts > store.MaxAttempts {
		return Settings{}, fmt.Errorf("ATTEMPTS: %q is not a number from 1 to %d", getenv("ATTEMPTS"), store.MaxAttempts)
	}
	if !isOrigin(s.Origin) {
		return Settings{}, fmt.Errorf("CORS_ORIGIN: %q is no origin, such as https://shop.example", s.Origin)
	}
	if s.Unsafe, err = flag(getenv, "UNSAFE_SIMULATOR", false); err != nil {
		return Settings{}, err
	}
	if u, err := url.Parse(s.ProviderURL); s.ProviderURL != "" && (err != nil || u.Host == "" || s.ProviderToken == "") {
		return Settings{}, errors.New("PROVIDER_URL: want http://HOST:PORT of a service with this API, and PROVIDER_TOKEN, " +
			"a customer's token there")
	}
	return s, nil
}

// isOrigin reports whether text is empty, or what a browser sends as Origin: scheme, host and port alone.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && u.Host != "" && text == u.Scheme+"://"+u.Host
}

func flag(getenv func(name string) string, name string, unset bool) (bool, error) {
	switch text := getenv(name); text {
	case "":
		return unset, nil
	case "0", "1":
		return text == "1", nil
	default:
		return false, fmt.Errorf("%s: %q is neither 0 nor 1", name, text)
	}
}
