package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/goleak"
)

// The test binary is also the worker that the tests kill: it runs the whole program where this names a broker.
const (
	childBroker = "WORKER_TEST_BROKER"
	childNATS   = "WORKER_TEST_NATS"
	childServer = "WORKER_TEST_SERVER" // it is a NATS server, with this as the folder of its JetStream
	childPort   = "WORKER_TEST_PORT"   // of that
	childLife   = "WORKER_TEST_LIFE"   // it kills itself after so many messages at most, chosen at random; 0: never
)

// What a child says.
const (
	sayDelivered = "child: delivered"
	sayKilled    = "child: killed between handling and acknowledging"
)

func TestMain(m *testing.M) {
	if os.Getenv(childServer) != "" {
		serveNATS()
	}
	if os.Getenv(childBroker) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	life := 0
	_, _ = fmt.Sscan(os.Getenv(childLife), &life)
	err := run(ctx, settings{
		broker: os.Getenv(childBroker), natsURL: os.Getenv(childNATS), redeliver: redeliver,
	}, dieAfter(life))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dieAfter kills the process by SIGKILL at the worst moment: a message is handled and committed, and the broker does not
// know yet.
func dieAfter(life int) message.HandlerMiddleware {
	left := new(atomic.Int64)
	if life > 0 {
		left.Store(1 + rand.Int64N(int64(life)))
	}
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			fmt.Println(sayDelivered)
			out, err := next(m)
			if err == nil && left.Add(-1) == 0 {
				fmt.Println(sayKilled)
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // it may take a moment
			}
			return out, err
		}
	}
}
