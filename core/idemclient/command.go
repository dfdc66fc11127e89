package idemclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/internal/command"
	"github.com/auth19/idem/core/store"
)

// call is the sending of one command, with all attempts.
type call struct {
	client  *Client
	request *http.Request // the caller's; only read
	body    []byte
	intent  string
	key     string

	journaled bool          // false for a derived key: the handler's record is the journal
	entry     intents.Entry // what the journal was given for the command
	age       time.Duration // of the intent, at begun
	begun     time.Time

	attempts  int
	uncertain bool // the command may have been carried out
}

var errNoHost = errors.New("idem: the request's URL names no host")

// errOtherCommand says what the journal compares. A port that changes with each start is easily overlooked.
var errOtherCommand = errors.New("idem: method, host with its port, path, query, media type and body are the command; if " +
	"the server's address has changed, set the request's Host to the old one")

var errNoKey = errors.New("idem: the journal returned an intent without a key")

// journalPatience is how long the journal may take to answer.
const journalPatience = 10 * time.Second

// prepare finds the key of a command, and refuses a command that must not be sent. It sends nothing.
func (c *Client) prepare(r *http.Request, intent string) (*call, error) {
	if err := intents.Check(intent); err != nil {
		return nil, &Error{Intent: intent, Reason: err}
	}
	// Until it is known what was done under this name, another call or process may have carried it out (C-4).
	k := &call{client: c, request: r, intent: intent, uncertain: true}
	ctx := r.Context()
	if ctx.Err() != nil {
		return nil, k.fail(nil, ErrGivenUp, context.Cause(ctx))
	}
	calls := attemptctx.CallsFrom(ctx)
	derived := false
	if calls != nil {
		planned, err := c.inJournal(ctx, calls, intent)
		if err != nil {
			return nil, err
		}
		if derived = !planned; derived {
			k.uncertain = mayHaveCalled(ctx, calls, intent)
		} else if err := attemptctx.MayLeave(ctx); err != nil {
			return nil, k.fail(nil, err, nil)
		}
	}
	if r.URL == nil || r.URL.Host == "" {
		return nil, k.fail(nil, nil, errNoHost)
	}
	var err error
	if k.body, err = readBody(r, c.cfg.MaxBuffer); err != nil {
		return nil, k.fail(nil, err, nil)
	}
	brought, err := c.broughtKey(r)
	switch {
	case err != nil:
		return nil, k.fail(nil, err, nil)
	case derived:
		return k, k.derive(calls, brought)
	}
	return k, k.open(brought)
}

// derive derives the key from the attempt of the handler that makes the call.
func (k *call) derive(calls *attemptctx.Calls, brought string) error {
	derived, err := core.DeriveCall(k.request.Context(), k.intent)
	if err != nil {
		return k.fail(nil, err, nil)
	}
	k.key = derived.UUID()
	if err := k.checkKey(brought); err != nil {
		return err
	}
	if !calls.Enter(derived) {
		k.uncertain = true
		return k.fail(nil, ErrSameCall, nil)
	}
	return nil
}

// open takes the key from the journal, which stores it durably before the first attempt.
func (k *call) open(brought string) error {
	command, err := hashOf(k.request, k.body, 0)
	if err != nil {
		return k.fail(nil, nil, err)
	}
	k.entry = intents.Entry{Intent: k.intent, Key: brought, By: rand.Text()}
	if brought != "" || k.client.cfg.Provider.Member != "" {
		// A command that is refused here was not sent, and is not recorded as the intent's command.
		planned, err := k.client.begin(k.request.Context(), k.entry)
		if err != nil {
			return err
		}
		k.key = planned.Key
		if err := k.checkKey(brought); err != nil {
			return err
		}
	}
	k.begun, k.entry.Command = time.Now(), command
	entry, err := k.client.begin(k.request.Context(), k.entry)
	if err != nil {
		return err
	}
	k.key, k.age, k.journaled = entry.Key, entry.Age, true
	k.uncertain = !entry.First
	if entry.Command.Version != command.Version {
		if command, err = hashOf(k.request, k.body, entry.Command.Version); err != nil {
			return k.fail(nil, nil, err)
		}
	}
	switch {
	case entry.Command != command:
		return k.fail(nil, ErrKeyReused, errOtherCommand)
	case entry.Ended && k.client.cfg.CallerEnds:
		return k.fail(nil, ErrEnded, nil)
	}
	return nil
}

// alone reports that no other caller has come for the intent since this one has begun to send it. Without an answer of the
// journal it is not known (C-8).
func (k *call) alone() bool {
	entry, err := k.client.begin(context.WithoutCancel(k.request.Context()), k.entry)
	return err == nil && entry.First
}

// begin asks the journal. Without its answer it is not known whether the intent was sent before.
func (c *Client) begin(ctx context.Context, e intents.Entry) (intents.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, journalPatience)
	defer cancel()
	entry, err := c.cfg.Journal.Begin(ctx, e)
	if err != nil {
		err = fmt.Errorf("idem: the journal did not take the intent: %w", err)
		return intents.Entry{}, &Error{Intent: e.Intent, Cause: err, Uncertain: true}
	}
	if entry.Key == "" {
		return intents.Entry{}, &Error{Intent: e.Intent, Cause: errNoKey, Uncertain: true}
	}
	return entry, nil
}

// checkKey compares the intent's key with the one that the caller brought ("" if none), and with the one in the body.
func (k *call) checkKey(brought string) error {
	if brought != "" && brought != k.key {
		return k.fail(nil, ErrOtherKey, nil)
	}
	member := k.client.cfg.Provider.Member
	if member == "" {
		return nil
	}
	var members map[string]json.RawMessage
	var key string
	if json.Unmarshal(k.body, &members) != nil || json.Unmarshal(members[member], &key) != nil || key != k.key {
		return k.fail(nil, ErrOtherKey,
			fmt.Errorf("idem: this provider wants the key in the member %q of a JSON body; get it from Client.Key", member))
	}
	return nil
}

// broughtKey returns the key that is in the request already; "" if there is none.
func (c *Client) broughtKey(r *http.Request) (string, error) {
	lines := r.Header[c.header]
	switch {
	case c.header == "" || len(lines) == 0:
		return "", nil
	case len(lines) > 1:
		return "", fmt.Errorf("%w; it has %d", ErrOtherKey, len(lines))
	}
	if err := c.cfg.Provider.checkKey(lines[0]); err != nil {
		return "", fmt.Errorf("%w: %w", ErrOtherKey, err)
	}
	return lines[0], nil
}

// readBody reads the body of r through GetBody. If r has no GetBody, it reads the body itself, at most maxBuffer bytes.
func readBody(r *http.Request, maxBuffer int64) ([]byte, error) {
	var from io.Reader
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return nil, nil
	case r.GetBody != nil:
		copied, err := r.GetBody()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotRewindable, err)
		}
		defer func() { _ = copied.Close() }()
		from = copied
	case maxBuffer == 0:
		return nil, ErrNotRewindable
	default:
		from = io.LimitReader(r.Body, maxBuffer+1)
	}
	body, err := io.ReadAll(from)
	switch {
	case err != nil:
		return nil, fmt.Errorf("idem: the body of the request cannot be read: %w", err)
	case r.GetBody == nil && int64(len(body)) > maxBuffer:
		return nil, fmt.Errorf("%w, and is above Config.MaxBuffer (%d bytes)", ErrNotRewindable, maxBuffer)
	case r.ContentLength > 0 && r.ContentLength != int64(len(body)):
		return nil, fmt.Errorf("idem: the request has a ContentLength of %d and a body of %d bytes", r.ContentLength, len(body))
	}
	return body, nil
}

var zeroHash store.CommandHash

// hashOf is the hash of a command, as servers of this library compute it, together with the host. The same command to
// another host is another command, because only the host that got a key knows it. If one host has several addresses, the
// caller sets r.Host.
func hashOf(r *http.Request, body []byte, version int16) (store.CommandHash, error) {
	hash, err := command.Of(r, nil, body).Hash(cmp.Or(version, command.Version))
	if err != nil {
		return zeroHash, err
	}
	host := cmp.Or(r.Host, r.URL.Host)
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64([]byte("client/1"), uint64(len(host))))
	h.Write([]byte(strings.ToLower(host)))
	h.Write(hash.Sum[:])
	h.Sum(hash.Sum[:0])
	return hash, nil
}
