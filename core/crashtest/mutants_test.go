package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// A kit that cannot fail proves nothing. A mutant is a bank with one fault, which only a crash shows. It names the
// points at which the kit must find it, and no others, by the words in the message.
var mutants = []struct {
	name  string
	bank  opens
	found at
}{
	{"frees the key of what was lost", freesLost, at{
		`"ledger" is there 2 times`: "after book, before End completed",
	}},
	{"a new key at the provider for each attempt", paying(resuming, func(ctx context.Context, _ int, book func()) error {
		return core.CallDo(ctx, "book", func(context.Context, store.DerivedKey) error {
			book()
			return nil
		}, core.Dedup(time.Hour))
	}), at{"2 times": "after book, before Seal answer"}},
	{"writes around the transaction", paying(rollingBack, func(_ context.Context, _ int, book func()) error {
		book()
		return nil
	}), at{"2 times": "after book, before Seal answer"}},
	{"a step writes around its segment", paying(resuming, func(ctx context.Context, order int, book func()) error {
		_, err := core.Step(ctx, "book", func(context.Context) (int, error) {
			book() // the rows stay when the segment is lost: X-16
			return order, nil
		})
		return err
	}), at{"2 times": "after book, before Seal answer"}},
	{"a call outside of core.Call rests on nothing", paying(resumingRows, func(ctx context.Context, order int, book func()) error {
		err := gormstore.StepDo(ctx, "hold", func(tx *gorm.DB) error {
			_, err := gormstore.CreateOnce(tx, &entry{Paid: order})
			return err
		})
		if err == nil {
			book() // nothing of the step is durable yet: X-17
		}
		return err
	}), at{"2 times": "after book, before Seal answer"}},
	{"moves the money after the answer", afterAnswer, at{
		"is lost": "after End completed, before book", // before: the client has its answer, and repeats nothing
	}},
	{"answers are kept in memory", answersInMemory, at{
		"2 times":     "after book, before the answer leaves, while the answer leaves",
		"contradicts": "after the answer has arrived",
	}},
	{"keys are known, and answers are not", answersAnew, at{"contradicts": "after the answer has arrived"}},
	{"a lock for ever", tried(lockForEver, impatient), at{
		"no final answer": "after lock, before book, after book, before unlock",
	}},
	{"unknown is not said to be legal", tried(parking, known), at{
		"outcome_unknown": "after Claim, before book, after book, before End completed",
	}},
}

type (
	opens = func(t *testing.T) *bank
	pays  = func(ctx context.Context, order int, book func()) error
	at    = map[string]string
)

// TestMutants shows what the kit finds, and where.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			b := m.bank(t)
			wrong, err := crashtest.Violations(t.Context(), b.app(), b.scenario())
			require.NoError(t, err)
			want := map[string]string{}
			for message, points := range m.found {
				for point := range strings.SplitSeq(points, ", ") {
					want[point] = message
				}
			}
			for point, messages := range wrong {
				_, words, _ := strings.Cut(point, " ")
				require.Contains(t, want, words, "%s: %s", point, messages)
				require.Contains(t, strings.Join(messages, "\n"), want[words], point)
			}
			require.Len(t, wrong, len(want), "%v", wrong)
		})
	}
}

// paying books in another ledger than its bank, which does not know a repeat.
func paying(open opens, pay pays) opens {
	return func(t *testing.T) *bank {
		b, l := open(t), newLedger()
		b.effects = l.effects
		b.pay = func(ctx context.Context, g *crashtest.Gates, order int) error {
			return pay(ctx, order, func() { g.Around("book", func() { l.book("", order) }) })
		}
		return b
	}
}

// tried is a bank that is tried in another scenario.
func tried(open opens, change func(*crashtest.Scenario)) opens {
	return func(t *testing.T) *bank {
		b := open(t)
		b.change = change
		return b
	}
}

func known(s *crashtest.Scenario) { s.Unknown = false }

func impatient(s *crashtest.Scenario) { s.Patience = 500 * time.Millisecond }

// resumingRows is a bank on a Resume route whose steps have rows.
func resumingRows(t *testing.T) *bank {
	b := rollingBack(t)
	b.recovery = store.Resume
	return b
}

// freesLost treats a lost attempt as one that has done nothing.
func freesLost(t *testing.T) *bank {
	b := parking(t)
	b.store = runsAgain{b.store}
	return b
}

type runsAgain struct{ store.Operations }

func (s runsAgain) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := s.Operations.Claim(ctx, c)
	if err == nil && claimed.Record.State() == store.Unknown {
		settled := store.Settlement{ID: c.ID, Fence: claimed.Record.Fence, Who: "a mutant", Why: "it was lost"}
		if _, tooEarly := s.Settle(ctx, settled); tooEarly == nil {
			return s.Operations.Claim(ctx, c)
		}
		return store.Claimed{Busy: true}, nil
	}
	return claimed, err
}

// afterAnswer moves the money when the answer is recorded: in the background, so to speak.
func afterAnswer(t *testing.T) *bank {
	b, l := parking(t), newLedger()
	b.effects = l.effects
	b.pay = func(context.Context, *crashtest.Gates, int) error { return nil }
	b.guards = func(idem *core.Module, g *crashtest.Gates) []gin.HandlerFunc {
		return []gin.HandlerFunc{func(c *gin.Context) {
			order := orderOf(c)
			held := hold(c)
			c.Next()
			if held.Header().Get(wire.HeaderResult) == wire.ResultCreated {
				g.Around("book", func() { l.book("", order) })
			}
			held.release()
		}, ginidem.Idempotent(idem)}
	}
	return b
}

// unguarded is a bank with a handmade guard, as many people write them at first.
func unguarded(t *testing.T, guard func(c *gin.Context, g *crashtest.Gates, key string)) *bank {
	b := parking(t)
	b.guards = func(_ *core.Module, g *crashtest.Gates) []gin.HandlerFunc {
		return []gin.HandlerFunc{func(c *gin.Context) { guard(c, g, c.GetHeader(wire.HeaderKey)) }}
	}
	return b
}

// replay sends the recorded answer of a key, if there is one.
func replay(c *gin.Context, answers *sync.Map, key string) bool {
	body, ok := answers.Load(key)
	if ok {
		c.Data(http.StatusCreated, "application/json", body.([]byte))
		c.Abort()
	}
	return ok
}

// answersInMemory keeps answers in memory, where a crash loses them.
func answersInMemory(t *testing.T) *bank {
	var lives sync.Map // of gates: answers by key
	return unguarded(t, func(c *gin.Context, g *crashtest.Gates, key string) {
		life, _ := lives.LoadOrStore(g, &sync.Map{})
		if answers := life.(*sync.Map); !replay(c, answers, key) {
			held := hold(c)
			c.Next()
			answers.Store(key, held.body.Bytes())
			held.release()
		}
	})
}

// answersAnew never pays twice, and makes up a new answer for each repeat after a crash.
func answersAnew(t *testing.T) *bank {
	b := answersInMemory(t)
	l := newLedger()
	b.effects = l.effects
	b.pay = func(_ context.Context, g *crashtest.Gates, order int) error {
		g.Around("book", func() { l.book(string(rune(order)), order) })
		return nil
	}
	return b
}

// lockForEver marks a key as taken before the payment, and never looks at how old the mark is.
func lockForEver(t *testing.T) *bank {
	var marks, answers sync.Map // in a database
	return unguarded(t, func(c *gin.Context, g *crashtest.Gates, key string) {
		taken := false
		g.Around("lock", func() { _, taken = marks.LoadOrStore(key, true) })
		switch {
		case !taken:
			held := hold(c)
			c.Next()
			g.Around("unlock", func() { answers.Store(key, held.body.Bytes()) })
			held.release()
		case !replay(c, &answers, key):
			c.AbortWithStatusJSON(http.StatusConflict, gin.H{"code": core.CodeInFlight})
		}
	})
}

// heldWriter keeps an answer back.
type heldWriter struct {
	gin.ResponseWriter
	body bytes.Buffer
}

func hold(c *gin.Context) *heldWriter {
	held := &heldWriter{ResponseWriter: c.Writer}
	c.Writer = held
	return held
}

func (w *heldWriter) Write(p []byte) (int, error)       { return w.body.Write(p) }
func (w *heldWriter) WriteString(s string) (int, error) { return w.body.WriteString(s) }
func (w *heldWriter) release()                          { _, _ = w.ResponseWriter.Write(w.body.Bytes()) }

// orderOf reads the body, and leaves it to be read again.
func orderOf(c *gin.Context) int {
	var in struct{ Order int }
	body, _ := c.GetRawData()
	_ = json.Unmarshal(body, &in)
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	return in.Order
}
