package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// kept is how many records a store gets to keep before it is changed for a new one. All that are kept are work for the
// garbage collector, which grows with a store and has nothing to do with a request.
const kept = 10_000

// BenchmarkMemory compares a request to the bare handler, behind JWT and roles guard, with a first request and with a
// replay, in memory: the difference is what this library costs without a database.
func BenchmarkMemory(b *testing.B) {
	for _, framework := range []string{"Gin", "Echo"} {
		open := func(b *testing.B) *app {
			s := service{framework: framework, store: memstore.New(), recovery: core.Park, body: jsonBody(smallBody)}
			a, err := s.open()
			require.NoError(b, err)
			return a
		}
		run := func(name, path string, renew bool, key func() string, answer want) {
			b.Run(framework+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				a := open(b)
				if answer == reused {
					require.NoError(b, a.send(path, key(), created))
				}
				for i := 0; b.Loop(); i++ {
					if renew && i%kept == 0 {
						b.StopTimer()
						a = open(b)
						b.StartTimer()
					}
					if err := a.send(path, key(), answer); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("bare", bare, false, newKey, plain)
		run("first", guarded, true, newKey, created)
		repeated := newKey()
		run("replay", guarded, false, func() string { return repeated }, reused)
	}
}
