package gormstore

import (
	"sync"

	"github.com/auth19/idem/core/store"
)

// running has the attempts of this process whose record nobody can see yet: their first segment is open. A repeat that
// comes to the same process is told so without a statement. The database alone decides what runs: an attempt that is not
// here may still hold its key, and one that the server has ended is here until its handler notices, or its deadline comes.
type running struct {
	mu     sync.Mutex
	owners map[store.ID]store.Owner
}

func (r *running) add(id store.ID, owner store.Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.owners = make(map[store.ID]store.Owner)
	}
	r.owners[id] = owner
}

// remove forgets an attempt. A later one of the key stays.
func (r *running) remove(id store.ID, owner store.Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners[id] == owner {
		delete(r.owners, id)
	}
}

func (r *running) has(id store.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.owners[id]
	return has
}
