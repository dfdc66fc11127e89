package memstore_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

func benchClaim() store.Claim {
	return store.Claim{
		Recovery: store.Park, Method: http.MethodPost, Route: "/v1/payments", Lease: 30 * time.Second, Deadline: time.Minute,
	}
}

func benchCompletion() store.Completion {
	return store.Completion{
		Answer: store.Answer{
			Status: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: make([]byte, 100),
		},
		Retention: 72 * time.Hour, Tombstone: 30 * 24 * time.Hour,
	}
}

// BenchmarkFirst is what a store adds to the first request of a key.
func BenchmarkFirst(b *testing.B) {
	s := memstore.New(memstore.WithMaxRecords(1 << 30))
	var next atomic.Uint64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, c, done := context.Background(), benchClaim(), benchCompletion()
		for pb.Next() {
			n := next.Add(1)
			binary.BigEndian.PutUint64(c.ID[:], n*0x9E3779B97F4A7C15) // spread as a hash spreads
			got, err := s.Claim(ctx, c)
			if err != nil || !got.Won {
				b.Fatal(got, err)
			}
			if err := s.End(ctx, got.Record.Ticket, store.Ending{State: store.Completed, Answer: done}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReplay is what a store adds to a repeat.
func BenchmarkReplay(b *testing.B) {
	s := memstore.New()
	c := benchClaim()
	got, err := s.Claim(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.End(b.Context(), got.Record.Ticket, store.Ending{State: store.Completed, Answer: benchCompletion()}); err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if got, err := s.Claim(ctx, c); err != nil || got.Won {
			b.Fatal(got, err)
		}
	}
}
