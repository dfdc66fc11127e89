package generator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
)

// attemptHeader has the number of a client's request. It does not belong to the command.
const attemptHeader = "X-Attempt"

var (
	errOnPurpose = errors.New("on purpose")
	errDead      = errors.New("this process is dead")
)

// execution is one of the handler's: what it has done, as it sees it.
type execution struct {
	run     *run
	in      *instance
	attempt int // of the request
	nth     int // of the key, from 1
	rows    []string
	results map[string]string // of calls that have finished here
	sure    bool              // when it began, all calls without Dedup had finished
	commits bool              // this or an earlier execution came to a call or a checkpoint: a segment may have committed
	keeps   bool              // core.KeepRows
	running bool
	stale   bool            // another execution has begun since, or a settlement was made
	late    []string        // steps that it has begun since then
	called  map[string]bool // calls that others had begun before
}

// ServeHTTP is the handler of all routes.
func (in *instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	run := in.world.run.Load()
	attempt, _ := strconv.Atoi(r.Header.Get(attemptHeader))
	if key := r.Header.Get("Idempotency-Key"); run == nil || run.key != key {
		panic(errDead) // a request that was left behind
	}
	status := run.execute(r.Context(), in, attempt)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s by %d", run.key, attempt)
}

// execute runs the program, and returns its status.
func (k *run) execute(ctx context.Context, in *instance, attempt int) int {
	k.gate.RLock()
	defer k.gate.RUnlock()
	e, stop := k.begin(in, attempt)
	defer k.end(e)
	for i, a := range append(slices.Clip(k.program.actions), action{verb: pause}) {
		stop.pass(i)
		if in.dead.Load() {
			panic(errDead)
		}
		switch a.verb {
		case keepRows:
			core.KeepRows(ctx)
			e.keeps = true
			continue
		case pause:
			a.rest()
			continue
		case failed, refuse, panics:
			if e.nth > a.fails {
				continue
			}
			switch a.verb {
			case failed:
				core.Failed(ctx)
				return http.StatusOK
			case refuse:
				core.NotApplied(ctx)
				return http.StatusConflict
			}
			panic(errOnPurpose)
		}
		if err := e.act(ctx, a); err != nil && !a.swallow {
			return http.StatusInternalServerError
		}
	}
	return k.program.status
}

// act takes an action that may fail.
func (e *execution) act(ctx context.Context, a action) error {
	stale := e.acts(a)
	if e.run.program.recovery == core.Park {
		key, err := core.DeriveCall(ctx, a.name)
		if err != nil {
			return err
		}
		_, err = e.charge(key, a, false)
		return err
	}
	resume := e.run.program.recovery == core.Resume
	write := func(tx *gorm.DB) error {
		if a.verb == failing && e.nth <= a.fails {
			return tx.Exec("INSERT INTO effects (run, step, attempt) VALUES ('', '', 1/0)").Error
		}
		return tx.Exec("INSERT INTO effects (run, step, attempt) VALUES (?, ?, ?)", e.run.key, a.name, e.attempt).Error
	}
	var err error
	switch a.verb {
	case checkpoint:
		if !resume {
			return nil
		}
		e.mayCommit()
		return core.Checkpoint(ctx)
	case call, once, optional:
		e.mayCommit()
		if a.verb == once {
			e.run.begins(a)
		}
		options := map[verb][]core.CallOption{call: {core.Dedup(time.Hour)}, once: nil,
			optional: {core.Optional(), core.Dedup(time.Hour)}}[a.verb]
		result, err := core.Call(ctx, a.name, func(_ context.Context, key core.DerivedKey) (string, error) {
			return e.charge(key, a, stale)
		}, options...)
		e.run.called(e, a, result, err)
		return err
	case message:
		m := inbox.Message{Source: "generator", ID: e.run.key + a.name, Payload: []byte(a.name)}
		if !resume {
			err = e.in.box.Process(ctx, m, write)
			break
		}
		err = gormstore.StepDo(ctx, a.name, func(tx *gorm.DB) error {
			return e.in.box.Process(tx.Statement.Context, m, write)
		})
	default:
		if resume {
			err = gormstore.StepDo(ctx, a.name, write)
		} else {
			err = write(gormstore.Tx(ctx))
		}
	}
	if err == nil {
		e.rows = append(e.rows, a.name)
	}
	return err
}

func (a action) rest() {
	if a.slow {
		time.Sleep(50 * time.Millisecond)
	}
}

// mayCommit says that from now on a segment of the operation may have committed.
func (e *execution) mayCommit() {
	e.run.mu.Lock()
	defer e.run.mu.Unlock()
	e.run.commits, e.commits = true, true
}

// charge is the provider. It makes a charge for each key that is new to it. stale: so was the attempt before the call.
func (e *execution) charge(key core.DerivedKey, a action, stale bool) (string, error) {
	defer a.rest()
	k := e.run
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.in.dead.Load() {
		return "", errDead
	}
	c := k.calls[a.name]
	if c == nil {
		c = &provided{keys: map[core.DerivedKey]bool{}}
		k.calls[a.name] = c
	}
	c.made++
	if stale && !e.called[a.name] { // else the call had begun before its attempt, and nothing is written in front of it
		k.wrong("call %s is begun by attempt %d, which is stale", a.name, e.attempt)
	}
	fails := e.nth <= a.fails
	if !fails || a.mute {
		c.keys[key] = true
	}
	if len(c.keys) > 1 {
		k.wrong("two charges for call %s", a.name)
	}
	if a.verb == once && c.made > 1 && k.program.recovery == core.Resume {
		k.wrong("call %s is made twice, without Dedup", a.name)
	}
	if c.saved != "" {
		k.wrong("call %s is made again in attempt %d, although its result %q was told as kept", a.name, e.attempt, c.saved)
	}
	if fails {
		return "", errOnPurpose
	}
	result := fmt.Sprintf("%s/%d", a.name, c.made)
	c.given = append(c.given, result)
	return result, nil
}

// acts notes an action that begins, and reports whether the attempt is stale.
func (e *execution) acts(a action) (stale bool) {
	k := e.run
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.stale {
		e.late = append(e.late, a.name)
	}
	k.acted[a.name] = true
	return e.stale
}

// begins notes that a call without Dedup may have begun.
func (k *run) begins(a action) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.calls[a.name]; c == nil || !c.heard {
		k.unsure[a.name] = true
	}
}

// called notes what the handler heard of a call.
func (k *run) called(e *execution, a action, result string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		return
	}
	c := k.calls[a.name]
	if c == nil || c.saved != "" && c.saved != result || !slices.Contains(c.given, result) {
		k.wrong("call %s has the result %q in attempt %d, which nobody has returned: %+v", a.name, result, e.attempt, c)
		return
	}
	delete(k.unsure, a.name)
	c.heard = true
	e.results[a.name] = result
}
