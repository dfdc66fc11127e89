package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/auth19/idem/core/store"
)

// Defaults of the contract. A zero field of [Policy] or [Config] means its default.
const (
	defaultInvalidRetention = 6 * time.Hour   // Policy.InvalidRetention
	defaultMaxAnswer        = 1 << 20         // Policy.MaxAnswer, 1 MiB
	defaultMaxWaiters       = 256             // Config.MaxWaiters (M-2)
	defaultRetryAfter       = 2 * time.Second // Config.RetryAfter
	defaultResumeFor        = 24 * time.Hour  // Policy.ResumeFor
	defaultSweepEvery       = time.Minute     // Config.SweepEvery (T-3)
	defaultSweepBatch       = 500             // Config.SweepBatch, records (T-3)
)

// Bounds of the contract.
const (
	maxWait      = 10 * time.Second    // of Policy.Wait (M-2)
	maxResumeFor = 30 * 24 * time.Hour // of Policy.ResumeFor
)

// Routes is the table of all unsafe routes of an app, and of the safe ones that ask for roles. A key is "METHOD pattern",
// with the pattern as the router spells it: "POST /v1/payments/:id/refunds" (contract O-4).
type Routes map[string]Policy

// Policy says how one route is guarded. An unsafe route has either a Recovery, or a reason to be Exempt or Unguarded. A
// safe route (GET, HEAD, OPTIONS, TRACE) has only Roles, and a reason to be Exempt if it runs the handler of a guarded
// one. A zero field takes its value from Config.Policy. If that is zero too, it has the default named below. Recovery,
// Formerly, Roles, Exempt, Unguarded, Review, ShadowUntil and Streaming are never taken from Config.Policy.
type Policy struct {
	// Recovery says what happens after an attempt that failed or was cut off: Rollback, Resume or Park. It has no default
	// (O-5).
	Recovery Recovery
	// Formerly lists the patterns that this guarded route had in earlier releases, without the method. Operations that were
	// begun under them are continued, given up and settled by this policy. Without it, an operation of a pattern that is not
	// in the table is neither continued nor given up ([EventRouteUnknown]). New refuses a pattern of the table, and one that
	// is named twice. Default none.
	Formerly []string
	// Roles: the caller needs one of them, on the first request and on every repeat (O-3). Empty: any principal.
	Roles []string
	// Exempt is the reason why this route needs no key, written as a sentence. New refuses a single word, and TODO. Of a safe
	// route it is the reason why requests without a key may run the handler of a guarded route.
	Exempt string
	// Unguarded is the reason why this unsafe route is not guarded yet, written likewise. A repeat of its requests runs again.
	// The audit tells the observer of each one (EventUnguarded), and it stays in [Module.Table].
	Unguarded string
	// Review is called before a recorded answer is replayed, for rights that depend on the stored resource. If it returns an
	// error or panics, the repeat gets 403 (O-3). The error's text is not sent.
	Review func(ctx context.Context, p Principal, r Record) error

	// Retention is how long a recorded answer is replayed: 24 h to 72 h, default 72 h (T-2).
	Retention time.Duration
	// Tombstone is how long a key stays refused after retention, at least 24 h, default 30 days (M-5).
	Tombstone time.Duration
	// InvalidRetention is how long a recorded 400 or 422 is kept whose rows were rolled back: of a Rollback route, or of a
	// Resume route before its first commit. No tombstone follows: then the key is free. 1 min to Retention, default 6 h.
	InvalidRetention time.Duration
	// Lease is how long a Park or Resume attempt counts as alive without a renewal: 1 s to 1 h, default 30 s.
	// It is renewed every third of it.
	Lease time.Duration
	// Deadline is how long an attempt may take. The handler's context ends then. 1 s to 24 h, default 60 s.
	Deadline time.Duration
	// Wait is how long a repeat waits for the running attempt to get its answer: at most 10 s. Default 0: it does not wait
	// (M-2). New refuses it with [IETF].
	Wait time.Duration
	// ResumePause is how long a Resume operation rests behind its third attempt, from the end of that attempt's lease: 1 ms to
	// 1 h, default 5 s. It doubles with each further attempt, up to 10 min. A repeat inside a pause is in_flight.
	ResumePause time.Duration
	// MaxAttempts is how many attempts a Resume operation may have, those of repeats and of Run together: 1 to 1000, default
	// 200, which the pauses leave to ResumeFor. New refuses it on a route of another recovery. After the last one it is parked:
	// it is unknown, and a reconciler or an operator settles it.
	MaxAttempts int
	// ResumeFor is how long after its first attempt a Resume operation may be continued: 1 min to 30 days, default 24 h.
	// After that the operation is parked, even if it had fewer attempts. Do not make it longer than the providers
	// keep the keys of its steps.
	ResumeFor time.Duration
	// MaxBody is the largest request body in bytes, default 1 MiB. A larger body gets 413 (H-5).
	MaxBody int64
	// MaxAnswer is the largest recorded answer in bytes, including its recorded headers, default 1 MiB.
	MaxAnswer int64
	// MaxOpen caps how many records of one principal are running or unknown, on all routes together. Half-done operations do
	// not count. At the cap a new key is refused with 429 too_many_open and Retry-After, and nothing is run. A repeat
	// of a key that has a record is not refused. Default 0: no cap. It costs one statement per
	// request. In gormstore, every recorded answer of a Park or Resume route then also changes the table's indexes.
	//
	// It keeps one principal from filling the table with records that no sweep may remove. It is neither exact nor a rate
	// limit: commands that arrive at the same moment may all pass. A Rollback attempt is not counted while it runs, because
	// its record cannot be seen yet. So only the open records of Park and Resume routes cap a Rollback route, and a repeat
	// of its running attempt may get 429 instead of in_flight.
	MaxOpen int
	// KeyFormat is AnyKey (default), UUIDKey or TimedKey (K-3, T-6).
	KeyFormat KeyFormat
	// KeyAge is how old a timed key may be at its first request, by the store's clock and by this process's: at least 1 min,
	// default 24 h. New refuses it on a route without TimedKey. A key that is older and has no record is refused with 409
	// key_too_old. Retention must be at least KeyAge + 2 * Config.MaxClockSkew + 5 min + Deadline; Tombstone and
	// InvalidRetention are not used. If routes have different ages, the records of all of them stay as long as the longest age
	// requires.
	//
	// Keys that were made before KeyAge was raised are judged by the earlier age. When you raise it, or leave TimedKey, do
	// not change the route's pattern in the same deployment: the store knows the route by its pattern.
	KeyAge time.Duration
	// CommandHeaders names request headers that belong to the command, an account header for instance (H-1). The host
	// belongs to the command only if you name "Host": name it if each host is another shop. If a proxy changes the host,
	// name the header in which the proxy passes it on (H-7).
	CommandHeaders []string
	// RefuseRekeyed refuses a suspected duplicate: the same principal sends the same command again within RekeyWindow, but
	// with a new key. Usually the client makes a new key for each attempt instead of one for each intent, which is the most
	// common cause of a double charge. But the caller may also want two equal commands: 409 suspected_duplicate names the
	// operation of the earlier key, until RekeyWindow is over. If the store does not answer: 503. It needs a
	// [store.CommandLog], and costs one statement per request. It is no guarantee: two commands that arrive at the same
	// moment may both pass, and a command that differs in one value always passes.
	RefuseRekeyed bool
	// RekeyWindow is how long after a command the same command with another key is a suspected duplicate: 1 s to 24 h,
	// default 10 min. It is used on routes in shadow, and with RefuseRekeyed.
	RekeyWindow time.Duration
	// ShadowUntil puts the route in shadow until that time, at most 90 days ahead: the key is watched, but not enforced.
	// Principal, roles and the table are enforced as usual. Requests pass with or without a key. Nothing is claimed,
	// recorded or replayed. The observer is told what would have happened: EventWouldClaim, EventWouldReplay,
	// EventWouldRefuse and EventSuspectedDuplicate. A failure of the store never fails a request in shadow.
	//
	// The handler runs outside any attempt, as it did without the library. It has no transaction of the store (gormstore.Tx
	// panics), no steps and no operation id: see InShadow. The other fields of the policy apply after the shadow; New checks
	// them now.
	//
	// At ShadowUntil the key is enforced, in all running instances at once and without a deployment. New refuses a ShadowUntil
	// that has passed, so that the table always says what applies. It needs a [store.CommandLog]. Default: enforced.
	ShadowUntil time.Time
	// Unwritten says what becomes of a success of a Rollback handler whose transaction carried no write: by default
	// UnwrittenEvent. Its rows may have gone elsewhere, into a transaction of middleware for instance, which the library does
	// not see. New refuses it on a route of another recovery.
	Unwritten Unwritten
	// TwoToSettle: an operator only proposes what an unknown operation is settled as, and another principal (issuer, tenant,
	// subject) carries it out, who sends the same fence and the digest of that proposal. Config.Reconcile is exempt:
	// it is the app's own code, and settles alone. The same login must not be two people's. Another module over the store
	// settles by its own policy: set it in each. It needs a [store.Proposals]. Default: one operator settles.
	TwoToSettle bool
	// Streaming lets a Park or Resume handler flush its answer before it is recorded. If it does, a repeat gets 409
	// response_not_replayable with status and Location. Where recording then fails, the answer is broken off. Where
	// that cannot be done, over HTTP/1.0 and behind a writer that hides the server's, nothing is streamed. New refuses it
	// with Rollback.
	Streaming bool
}

// Unwritten says what becomes of a Rollback handler's success whose transaction carried no write: no statement that may
// write through gormstore.Tx, SQLTx or PgxTx, no message that has joined it, and no settlement. It does not see which rows
// went elsewhere, and one write through the transaction is enough.
type Unwritten uint8

// What may become of it.
const (
	UnwrittenEvent   Unwritten = iota + 1 // it is recorded, and EventTransactionUnused tells of it; the default
	UnwrittenAllowed                      // it is recorded: there may be nothing to do, as in a cancel of what is cancelled
	UnwrittenRefused                      // it is rolled back, and its client gets 500 transaction_unused; the key is free
)

// route is a policy with all defaults filled in, and the route that it applies to.
type route struct {
	Policy
	method, pattern string
	declared        bool // from the table, not the module's own policy
	gates           []gate
}

// field is the name of the policy in the configuration, for errors.
func (r *route) field() string {
	if !r.declared {
		return "Policy"
	}
	return fmt.Sprintf("Routes[%q]", r.method+" "+r.pattern)
}

// guarded reports whether requests to the route need a key.
func (r *route) guarded() bool { return r.Recovery != 0 }

// routeKey is "METHOD pattern" without the concatenation.
type routeKey struct{ method, pattern string }

// isSafe reports whether a method needs no key (K-8; RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// withDefaults fills the zero fields of p from the module's own policy and the contract's defaults.
func (p Policy) withDefaults(own Policy) Policy {
	p.Retention = cmp.Or(p.Retention, own.Retention, store.DefaultRetention)
	p.Tombstone = cmp.Or(p.Tombstone, own.Tombstone, store.DefaultTombstone)
	p.InvalidRetention = cmp.Or(p.InvalidRetention, own.InvalidRetention, min(defaultInvalidRetention, p.Retention))
	p.Lease = cmp.Or(p.Lease, own.Lease, store.DefaultLease)
	p.Deadline = cmp.Or(p.Deadline, own.Deadline, store.DefaultDeadline)
	p.Wait = cmp.Or(p.Wait, own.Wait)
	p.ResumePause = cmp.Or(p.ResumePause, own.ResumePause, store.DefaultPause)
	p.MaxAttempts = cmp.Or(p.MaxAttempts, own.MaxAttempts, store.DefaultMaxAttempts)
	p.ResumeFor = cmp.Or(p.ResumeFor, own.ResumeFor, defaultResumeFor)
	p.MaxBody = cmp.Or(p.MaxBody, own.MaxBody, store.DefaultMaxBody)
	p.MaxAnswer = cmp.Or(p.MaxAnswer, own.MaxAnswer, defaultMaxAnswer)
	p.MaxOpen = cmp.Or(p.MaxOpen, own.MaxOpen)
	p.TwoToSettle = p.TwoToSettle || own.TwoToSettle
	p.KeyFormat = cmp.Or(p.KeyFormat, own.KeyFormat)
	p.KeyAge = cmp.Or(p.KeyAge, own.KeyAge, store.DefaultKeyAge)
	p.RefuseRekeyed = p.RefuseRekeyed || own.RefuseRekeyed
	p.RekeyWindow = cmp.Or(p.RekeyWindow, own.RekeyWindow, defaultRekeyWindow)
	p.Unwritten = cmp.Or(p.Unwritten, own.Unwritten, UnwrittenEvent)
	if p.CommandHeaders == nil {
		p.CommandHeaders = own.CommandHeaders
	}
	return p
}

// reviewed reports whether the answer of r may be shown to caller: r has no answer, or Review allows it (O-3).
func (p *Policy) reviewed(ctx context.Context, caller Principal, r *Record) bool {
	return p.Review == nil || r.State() != store.Completed ||
		recovered(func() error { return p.Review(ctx, caller, *r) }) == nil
}

// check returns what is wrong with a filled policy of a route with the given method ("" for the module's own).
func (p Policy) check(method string, st Store) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	switch {
	case isSafe(method) && p.Recovery != 0:
		bad("Recovery: %s is a safe method and needs no key; leave Recovery out", method)
	case isSafe(method) && p.Unguarded != "":
		bad("Unguarded: %s is a safe method and needs no key; leave Unguarded out", method)
	case p.Exempt != "" && p.Recovery != 0:
		bad("Exempt: a route is either exempt or has a Recovery, not both")
	case p.Unguarded != "" && (p.Recovery != 0 || p.Exempt != ""):
		bad("Unguarded: a route that is not guarded yet is neither exempt nor has a Recovery")
	case p.Exempt != "":
		if !isReason(p.Exempt) {
			bad("Exempt: %q is no reason; say in a sentence why a repeat does no harm, or choose a Recovery", p.Exempt)
		}
	case p.Unguarded != "":
		if !isReason(p.Unguarded) {
			bad("Unguarded: %q is no reason; say in a sentence what it waits for, or choose a Recovery", p.Unguarded)
		}
	case isSafe(method):
	case p.Recovery == 0:
		bad("Recovery: choose one, money safety has no default: core.Rollback for handlers that only write rows of " +
			"the app's own database; core.Resume for handlers made of steps; core.Park for anything else. Or say why the " +
			"route is Exempt")
	case p.Recovery > Park:
		bad("Recovery: %d is none of core.Rollback, core.Resume, core.Park", p.Recovery)
	case p.Recovery == Rollback:
		if attempts, ok := st.(store.Attempts); !ok || !attempts.Rows() {
			bad("Recovery: Rollback needs a store that runs the handler's rows in the claim's transaction, and %T does "+
				"not; use gormstore, or core.Park", st)
		}
		if p.Streaming {
			bad("Streaming: no byte of a Rollback route leaves before COMMIT")
		}
	case p.Recovery == Resume:
		if _, ok := st.(store.Attempts); !ok {
			bad("Recovery: Resume needs a store that keeps steps, and %T does not; use gormstore, or core.Park", st)
		}
	}

	if p.Formerly != nil && p.Recovery == 0 {
		bad("Formerly: only a guarded route has operations; leave it out")
	}
	for _, pattern := range p.Formerly {
		if !isPattern(pattern) {
			bad("Formerly: %q is no pattern; want \"/pattern\", without the method", pattern)
		}
	}
	if p.Retention < store.MinRetention || p.Retention > store.MaxRetention {
		bad("Retention: %v is not between %v and %v", p.Retention, store.MinRetention, store.MaxRetention)
	}
	if p.Tombstone < store.MinRetention {
		bad("Tombstone: %v is shorter than %v; a late repeat would run again", p.Tombstone, store.MinRetention)
	}
	if p.InvalidRetention < time.Minute || p.InvalidRetention > p.Retention {
		bad("InvalidRetention: %v is not between 1m and Retention (%v)", p.InvalidRetention, p.Retention)
	}
	if p.Lease < time.Second || p.Lease > time.Hour {
		bad("Lease: %v is not between 1s and 1h", p.Lease)
	}
	if p.Deadline < time.Second || p.Deadline > store.MinRetention {
		bad("Deadline: %v is not between 1s and %v", p.Deadline, store.MinRetention)
	}
	if p.Wait < 0 || p.Wait > maxWait {
		bad("Wait: %v is not between 0 and %v", p.Wait, maxWait)
	}
	if p.MaxAttempts < 1 || p.MaxAttempts > store.MaxAttempts {
		bad("MaxAttempts: %d is not between 1 and %d", p.MaxAttempts, store.MaxAttempts)
	}
	if p.ResumePause < time.Millisecond || p.ResumePause > time.Hour {
		bad("ResumePause: %v is not between 1ms and 1h", p.ResumePause)
	}
	if p.ResumeFor < time.Minute || p.ResumeFor > maxResumeFor {
		bad("ResumeFor: %v is not between 1m and %v", p.ResumeFor, maxResumeFor)
	}
	if p.MaxBody < 1 {
		bad("MaxBody: %d is not a number of bytes", p.MaxBody)
	}
	if p.MaxAnswer < 1 {
		bad("MaxAnswer: %d is not a number of bytes", p.MaxAnswer)
	}
	if p.RekeyWindow < time.Second || p.RekeyWindow > maxRekeyWindow {
		bad("RekeyWindow: %v is not between 1s and %v", p.RekeyWindow, maxRekeyWindow)
	}
	if p.MaxOpen < 0 {
		bad("MaxOpen: %d is negative; 0 is no cap", p.MaxOpen)
	}
	if _, ok := st.(store.Proposals); p.TwoToSettle && !ok {
		bad("TwoToSettle: needs a store that keeps proposals (store.Proposals), and %T does not; use gormstore, or leave it "+
			"out", st)
	}
	p.checkRekey(st, bad)
	p.checkShadow(st, bad)
	if p.KeyFormat > TimedKey {
		bad("KeyFormat: %d is none of core.AnyKey, core.UUIDKey, core.TimedKey", p.KeyFormat)
	}
	if p.Unwritten > UnwrittenRefused {
		bad("Unwritten: %d is none of core.UnwrittenEvent, core.UnwrittenAllowed, core.UnwrittenRefused", p.Unwritten)
	}
	if slices.Contains(p.Roles, "") {
		bad("Roles: an empty role would never match; remove it")
	}
	for _, name := range p.CommandHeaders {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Trailer": // net/http takes them out of the headers
			bad("CommandHeaders: %s is not among a request's headers in Go; remove it", name)
		default:
			if !isToken(name) {
				bad("CommandHeaders: %q is not a header name", name)
			}
		}
	}
	return errs
}

func isPattern(s string) bool { return strings.HasPrefix(s, "/") && !strings.ContainsAny(s, " \t") }

// unused returns what is wrong with the fields of a route's own policy that the filled one does not use. Values that a route
// inherits may be unused.
func (p Policy) unused(filled Policy) (errs []error) {
	if p.KeyAge != 0 && filled.KeyFormat != TimedKey {
		errs = append(errs, errors.New("KeyAge: only a timed key has an age; set KeyFormat to core.TimedKey, or leave KeyAge out"))
	}
	if (p.MaxAttempts != 0 || p.ResumePause != 0) && (p.Recovery == Park || p.Recovery == Rollback) {
		errs = append(errs, errors.New("MaxAttempts, ResumePause: only core.Resume tries again; leave them out"))
	}
	if p.Unwritten != 0 && p.Recovery != Rollback && p.Recovery != 0 {
		errs = append(errs, errors.New("Unwritten: only core.Rollback has one transaction; leave it out"))
	}
	return errs
}

// isReason reports whether an exemption has more than one word, and is not the TODO that the audit prints.
func isReason(exempt string) bool {
	words := strings.FieldsFunc(exempt, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return len(words) > 1 && !slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "TODO") })
}

// compile turns the table into a look-up, every policy filled and checked. inherited is what is wrong with own: New names
// it once, so compile does not name it again for each route.
func (t Routes) compile(own Policy, store Store, inherited []error) (routes, former map[routeKey]*route, err error) {
	routes, former = make(map[routeKey]*route, len(t)), map[routeKey]*route{}
	var errs []error
	for name, policy := range t {
		method, pattern, ok := strings.Cut(name, " ")
		if !ok || !isToken(method) || method != strings.ToUpper(method) || !isPattern(pattern) {
			errs = append(errs, fmt.Errorf("Routes[%q]: want \"METHOD /pattern\", one space between", name))
			continue
		}
		filled := policy.withDefaults(own)
		for _, err := range filled.check(method, store) {
			same := func(other error) bool { return other.Error() == err.Error() }
			if !slices.ContainsFunc(inherited, same) {
				errs = append(errs, fmt.Errorf("Routes[%q]: %w", name, err))
			}
		}
		for _, err := range policy.unused(filled) {
			errs = append(errs, fmt.Errorf("Routes[%q]: %w", name, err))
		}
		r := &route{Policy: filled, method: method, pattern: pattern, declared: true}
		routes[routeKey{method, pattern}] = r
		for _, pattern := range policy.Formerly {
			was := routeKey{method, pattern}
			if _, taken := t[method+" "+pattern]; taken {
				errs = append(errs, fmt.Errorf("Routes[%q]: Formerly: %q is the pattern of a route of this table; remove it", name,
					pattern))
			} else if former[was] != nil {
				errs = append(errs, fmt.Errorf("Routes: Formerly: %q is named twice; it was one route", method+" "+pattern))
			}
			former[was] = r
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return routes, former, errors.Join(errs...)
}
