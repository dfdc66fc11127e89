package crashtest

import (
	"context"
	"sync"
)

// Violations runs the kit and returns what it finds wrong by the names of the points; those of a run without a crash as
// err.
func Violations(ctx context.Context, app App, s Scenario) (wrong map[string][]string, err error) {
	if err := validate(app, s); err != nil {
		return nil, err
	}
	e := newEnumeration(app, s.withDefaults())
	defer e.close()
	if err := e.measure(ctx); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	wrong = make(map[string][]string)
	e.each(func(w *worker, p point) {
		o := w.crash(ctx, p)
		mu.Lock()
		defer mu.Unlock()
		if len(o.wrong) > 0 {
			wrong[p.name] = o.wrong
		}
	})
	return wrong, nil
}
