package histories

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

// world has the instances of the apps, on one database server, each behind two proxies.
type world struct {
	databases []*pgtest.Cluster // one; a test uses two as a fault that must be found
	standby   *pgtest.Cluster   // of the first database; nil: there is no failover
	instances []*instance
	timed     time.Time // when the first key was made; zero: keys have no time
}

// instance is one of the apps.
type instance struct {
	*harness.Instance
	twice *cutproxy.Proxy // before Front: sends everything twice
}

// Lease and deadline of the apps: short, so that much happens.
const (
	lease    = time.Second
	deadline = 2500 * time.Millisecond
)

// Connections of clients are cut after a few requests, connections to the database after a few attempts.
var cuts = harness.Cuts{Front: 10_000, Back: 60_000}

// newWorld starts instances of the programs, and distributes them over the databases.
func newWorld(t *testing.T, seed uint64, databases []*pgtest.Cluster, programs ...harness.Program) *world {
	t.Helper()
	w := &world{databases: databases}
	keyAge := ""
	if seed%2 == 0 { // in every second world, keys are timed
		w.timed, keyAge = time.Now(), "24h"
	}
	for i, program := range programs {
		in := &instance{Instance: harness.NewInstance(t, program, seed+uint64(i)<<32, cuts, databases[i%len(databases)].URL(),
			"JWT_SECRET="+secret, "LEASE="+lease.String(), "DEADLINE="+deadline.String(), "STALL="+lease.String(), "ATTEMPTS=4",
			"KEY_AGE="+keyAge, "UNSAFE_SIMULATOR=1")}
		var err error
		in.twice, err = cutproxy.New(in.Front.Addr(), func(int) cutproxy.Fate { return cutproxy.Fate{Twice: true} })
		require.NoError(t, err)
		t.Cleanup(in.twice.Close)
		w.instances = append(w.instances, in)
	}
	for _, database := range databases {
		database.Exec(witness...)
	}
	return w
}

// failOver stops the database at once and promotes its standby, which gets a standby of its own. The apps are not told:
// under the address that they know, another server answers. The standby may not have caught up since the primary was started
// again: then no answer was based on what the standby lacks.
func (w *world) failOver(t *testing.T) {
	t.Helper()
	w.databases[0].Stop(pgtest.Immediate)
	w.standby.Promote()
	w.databases[0] = w.standby
	target, err := url.Parse(w.standby.URL())
	require.NoError(t, err)
	for _, in := range w.instances {
		in.Back.SetTarget(target.Host)
	}
	w.standby = w.databases[0].Standby()
}

// address returns where clients send a request that arrives once or twice.
func (in *instance) address(twice bool) string {
	if twice {
		return in.twice.Addr()
	}
	return in.Front.Addr()
}

// The callers. Each has the roles for all requests.
const (
	secret     = "a secret that only the histories know"
	principals = 3 // customers
	operators  = 2
)

// subject is the subject of a principal.
func subject(n int) string { return fmt.Sprint("customer-", n) }

func office(n int) string { return fmt.Sprint("operator-", n) }

func token(t *testing.T, subject string, roles ...string) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": harness.Issuer, "aud": "payments", "sub": subject, "exp": time.Now().Add(24 * time.Hour).Unix(), "roles": roles,
	}).SignedString([]byte(secret))
	require.NoError(t, err)
	return signed
}

// expire ends the retention of a key, if there is an answer.
func (w *world) expire(ctx context.Context, id core.ID) (expired bool, err error) {
	for _, database := range w.databases {
		var found []byte
		err := harness.Ask(ctx, database.URL(), []any{&found}, func() { expired = true },
			`UPDATE idempotency_record SET expires_at = c.now, due_at = c.now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) c
WHERE id = $1 AND state = 2 AND expires_at > c.now RETURNING id`, id[:])
		if err != nil {
			return false, err
		}
	}
	return expired, nil
}

// key returns a key: its name, or if keys are timed a UUIDv7, the same for the same name and number.
func (w *world) key(name string, n int) string {
	if w.timed.IsZero() {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	ms := w.made(n).UnixMilli()
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", ms>>16, ms&0xffff, sum[0], sum[1], sum[2:8])
}

// made returns when key n was made.
func (w *world) made(n int) time.Time { return time.UnixMilli(w.timed.UnixMilli() + int64(n)) }

// refuse refuses first requests with the keys up to n, as core.Module.RefuseKeysBefore does.
func (w *world) refuse(ctx context.Context, n int) error {
	realm := core.Scoping{}.PrincipalRealm(core.Principal{Issuer: harness.Issuer, Subject: subject(0)})
	for _, database := range w.databases {
		var name string
		err := harness.Ask(ctx, database.URL(), []any{&name}, func() {},
			`INSERT INTO idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE s.value::bigint < excluded.value::bigint RETURNING name`,
			fmt.Sprintf("floor/%x", realm[:8]), fmt.Sprint(w.made(n).UnixMicro()))
		if err != nil {
			return err
		}
	}
	return nil
}
