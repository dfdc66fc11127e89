package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is how many records a store gets to keep before it is changed for a new one. All that are kept are work for the
// garbage collector, which grows with a store and has nothing to do with a request.
const kept = 10_000

// BenchmarkMemory compares a request to the bare handler, behind JWT and roles guard, with a first request and with a
// replay, in memory: the difference is what this library costs without a database.
func BenchmarkMemory(b *testing.B) {
	for _, framework := range []string{"Gin", "Echo"} {
		open := func(b *testing.B, path string) http.Handler {
			s, err := openService(framework)
			require.NoError(b, err)
			return s.at(path)
		}
		run := func(name, path string, renew bool, key func() string, answer want) {
			b.Run(framework+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				app := open(b, path)
				if answer == reused {
					require.NoError(b, send(app, key(), created))
				}
				for i := 0; b.Loop(); i++ {
					if renew && i%kept == 0 {
						b.StopTimer()
						app = open(b, path)
						b.StartTimer()
					}
					if err := send(app, key(), answer); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("bare", barePath, false, newKey, plain)
		run("first", guardedPath, true, newKey, created)
		repeated := newKey()
		run("replay", guardedPath, false, func() string { return repeated }, reused)
	}
}
