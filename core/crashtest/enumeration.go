package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// point is where a command is crashed.
type point struct {
	name  string // of the subtest
	words string
	at    Point
	way   transit // "" at an event
}

// enumeration is all points of a command, and what was seen there.
type enumeration struct {
	app      App
	scenario Scenario

	// Without a crash:
	events   []string
	expected answer
	effects  Effects
	points   []point

	workers []*worker
	mu      sync.Mutex
	seen    []outcome
}

func newEnumeration(app App, s Scenario) *enumeration {
	e := &enumeration{app: app, scenario: s}
	for lane := range s.Parallel {
		e.workers = append(e.workers, &worker{enumeration: e, lane: lane})
	}
	return e
}

func (e *enumeration) close() {
	for _, w := range e.workers {
		w.die()
	}
}

// worker tries one point after the other, each with a new app after a crash.
type worker struct {
	*enumeration
	lane     int
	commands int   // how many were made
	life     *life // nil where none has begun, or the last was crashed
}

// live starts the app, unless it is running.
func (w *worker) live() error {
	if w.life != nil {
		return nil
	}
	life, err := begin(w.app, w.lane, w.scenario.Patience)
	w.life = life
	return err
}

// die kills the app, if it is running.
func (w *worker) die() {
	if w.life != nil {
		w.life.kill()
		w.life = nil
	}
}

// measure runs a command without a crash. That gives the points, and what is expected at each of them. On a busy
// machine the first answer may not be definite: then measure tries again.
func (e *enumeration) measure(ctx context.Context) (err error) {
	for range attempts {
		var definite bool
		if definite, err = e.tryMeasure(ctx); definite {
			break
		}
	}
	return err
}

func (e *enumeration) tryMeasure(ctx context.Context) (definite bool, err error) {
	w := e.workers[0]
	o := outcome{point: point{name: "no crash", words: "nowhere"}}
	c, n, before, err := w.prepare(ctx)
	if err != nil {
		return false, err
	}
	first := w.send(ctx, c, nil)
	e.events = w.life.gates.Events()
	if !first.definite() {
		return false, fmt.Errorf("idem: crashtest: without a crash the command must get a definite answer at once, not %v\n%s\n%s",
			first, first.body, w.life.log())
	}
	o.answers = append(o.answers, first)
	if e.expected, err = w.persist(ctx, c, &o); err != nil {
		return true, err
	}
	if e.effects, err = w.grown(ctx, n, before); err != nil {
		return true, err
	}
	o.effects, o.final = e.effects, e.expected
	w.count(ctx, n, &o)
	switch {
	case first.status < 400 && e.effects.empty():
		return true, fmt.Errorf("idem: crashtest: Scenario.Effects: nothing is there after a command that was answered with "+
			"%v; count what it brings about", first)
	case len(e.events) == 0:
		return true, errors.New("idem: crashtest: no event has passed the gates; give the app its database, store or " +
			"providers by way of them")
	}
	if o.judge(e); len(o.wrong) > 0 {
		return true, fmt.Errorf("idem: crashtest: without a crash: %s\n%s", strings.Join(o.wrong, "; "), o)
	}
	e.report(o)
	e.enumerate()
	return true, nil
}

var unnameable = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// enumerate makes the points.
func (e *enumeration) enumerate() {
	add := func(p point, what string) {
		what = strings.Trim(unnameable.ReplaceAllString(what, " "), " ")
		p.name = fmt.Sprintf("%03d %s", len(e.points), what[:min(len(what), 60)])
		e.points = append(e.points, p)
	}
	add(point{way: requestHalf, words: string(requestHalf)}, string(requestHalf))
	for i, event := range e.events {
		for _, after := range []bool{false, true} {
			at := Point{Event: i, After: after}
			word := strings.Fields(at.String())[0]
			add(point{at: at, words: word + " " + event}, word+" "+event)
		}
	}
	for _, way := range []transit{answerNothing, answerHalf, answerWhole} {
		add(point{way: way, words: string(way)}, string(way))
	}
}

// each calls try for all points, with all workers side by side.
func (e *enumeration) each(try func(w *worker, p point)) {
	points := make(chan point)
	var group sync.WaitGroup
	for _, w := range e.workers {
		group.Go(func() {
			for p := range points {
				try(w, p)
			}
		})
	}
	for _, p := range e.points {
		points <- p
	}
	close(points)
	group.Wait()
}

// prepare makes a new command, in an app that is at rest and whose events are counted from now on.
func (w *worker) prepare(ctx context.Context) (c command, n int, before Effects, err error) {
	if err := w.live(); err != nil {
		return c, 0, nil, err
	}
	if !w.life.warm {
		if c, _, err = w.newCommand(ctx); err == nil {
			_, err = w.persist(ctx, c, &outcome{})
		}
		if err != nil {
			return c, 0, nil, fmt.Errorf("idem: crashtest: the first command of a new process: %w\n%s", err, w.life.log())
		}
		w.life.warm = true
	}
	if c, n, err = w.newCommand(ctx); err != nil {
		return c, n, nil, err
	}
	if before, err = w.countEffects(ctx, n); err != nil {
		return c, n, nil, err
	}
	err = w.life.gates.Rest(w.scenario.Patience)
	w.life.gates.Count()
	return c, n, before, err
}

// newCommand makes a command that the app has not seen.
func (w *worker) newCommand(ctx context.Context) (c command, n int, err error) {
	w.commands++
	n = w.commands*w.scenario.Parallel + w.lane
	r, err := w.scenario.Request(ctx, w.life.url, n)
	if err != nil {
		return c, n, fmt.Errorf("idem: crashtest: Scenario.Request: %w", err)
	}
	if c, err = newCommand(r); err != nil {
		return c, n, fmt.Errorf("idem: crashtest: Scenario.Request: its body: %w", err)
	}
	return c, n, nil
}

// send sends the command once, and notes its code.
func (w *worker) send(ctx context.Context, c command, around func(net.Conn) net.Conn) answer {
	a := c.send(ctx, w.life.url, around)
	a.code = w.scenario.ProblemCode(a.status, a.header, a.body)
	return a
}

// persist repeats the command until the answer is final, and once more.
func (w *worker) persist(ctx context.Context, c command, o *outcome) (final answer, err error) {
	for deadline := time.Now().Add(w.scenario.Patience); ; {
		final = w.send(ctx, c, nil)
		o.answers = append(o.answers, final)
		if final.final() {
			break
		}
		if time.Now().After(deadline) {
			return final, fmt.Errorf("there is no final answer: still %v", final)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return final, ctx.Err()
		}
	}
	o.answers = append(o.answers, w.send(ctx, c, nil))
	return final, nil
}

// attempts is how often a point is tried if the app does something else on the way to it.
const attempts = 3

// crash crashes the app at a point of a new command, and returns what was seen.
func (w *worker) crash(ctx context.Context, p point) (o outcome) {
	for range attempts {
		var there bool
		if o, there = w.tryCrash(ctx, p); there || len(o.wrong) > 0 {
			return o
		}
	}
	o.wrong = append(o.wrong, fmt.Sprintf("the app does not do the same things each time: without a crash\n  %s\nand now\n  %s",
		strings.Join(w.events, "\n  "), strings.Join(o.events, "\n  ")))
	return o
}

// tryCrash returns false if the app came to another point, because something else passed the gates meanwhile.
func (w *worker) tryCrash(ctx context.Context, p point) (o outcome, there bool) {
	o = outcome{point: p}
	fail := func(err error) (outcome, bool) {
		o.wrong = append(o.wrong, err.Error())
		if w.life != nil {
			o.log = w.life.log()
		}
		w.die()
		return o, true
	}
	c, n, before, err := w.prepare(ctx)
	if err != nil {
		return fail(err)
	}
	a, err := w.strike(ctx, c, p, &o)
	if err != nil {
		return fail(err)
	}
	if a.err == nil { // it was quicker than the crash
		o.answers = append(o.answers, a)
	}
	there = w.isAt(p, o.events)

	if err := w.live(); err != nil {
		return fail(fmt.Errorf("the app does not start again: %w", err))
	}
	if o.effectsThen, err = w.grown(ctx, n, before); err != nil {
		return fail(err)
	}
	if o.final, err = w.persist(ctx, c, &o); err != nil {
		return fail(err)
	}
	if o.effects, err = w.grown(ctx, n, before); err != nil {
		return fail(err)
	}
	w.count(ctx, n, &o)
	o.judge(w.enumeration)
	return o, there
}

// strike sends the command and kills the app at the point. There is an answer if it came before.
func (w *worker) strike(ctx context.Context, c command, p point, o *outcome) (a answer, err error) {
	life := w.life
	var once sync.Once
	crashed := false
	crash := func() {
		once.Do(func() {
			o.events, o.executions = life.gates.Events(), life.gates.executions()
			life.kill()
			crashed = true
		})
	}
	defer func() {
		once.Do(func() {}) // waits for a crash that is under way
		w.die()
		if !crashed {
			o.events = life.gates.Events()
		}
	}()
	switch p.way {
	case "":
		return w.strikeEvent(ctx, c, p.at, crash)
	case answerWhole:
		a = w.send(ctx, c, nil)
		crash()
		return a, a.err
	}
	a = w.send(ctx, c, func(conn net.Conn) net.Conn { return &crashingConn{Conn: conn, at: p.way, crash: crash} })
	if a.err == nil {
		err = errors.New("the answer came whole, and there was no crash")
	}
	return a, err
}

func (w *worker) strikeEvent(ctx context.Context, c command, at Point, crash func()) (answer, error) {
	fault := w.life.gates.Strike(at)
	answers := make(chan answer, 1)
	go func() { answers <- w.send(ctx, c, nil) }()
	select {
	case <-fault.Reached:
		crash()
		return <-answers, nil
	case a := <-answers:
		return a, a.err
	}
}

// isAt reports whether the app did the same things up to the point as it did without a crash.
func (w *worker) isAt(p point, events []string) bool {
	switch p.way {
	case requestHalf:
		return true
	case "":
		return slices.Equal(w.events[:p.at.Event+1], events)
	}
	return slices.Equal(w.events, events)
}

// countEffects counts the effects of command n by now.
func (w *worker) countEffects(ctx context.Context, n int) (Effects, error) {
	effects, err := w.scenario.Effects(ctx, w.life.url, n)
	if err != nil {
		return nil, fmt.Errorf("idem: crashtest: Scenario.Effects: %w", err)
	}
	return effects, nil
}

// grown is by how much the effects of command n have grown.
func (w *worker) grown(ctx context.Context, n int, before Effects) (Effects, error) {
	now, err := w.countEffects(ctx, n)
	if err != nil {
		return nil, err
	}
	grown := Effects{}
	for name, count := range now {
		grown[name] = count - before[name]
	}
	return grown, nil
}

// count counts the executions of command n, if that is possible.
func (w *worker) count(ctx context.Context, n int, o *outcome) {
	if w.scenario.Executions == nil {
		o.executions += w.life.gates.executions()
		return
	}
	var err error
	if o.executions, err = w.scenario.Executions(ctx, w.life.url, n); err != nil {
		o.wrong = append(o.wrong, fmt.Sprintf("idem: crashtest: Scenario.Executions: %v", err))
	}
}
