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
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// A kit that cannot fail proves nothing. A mutant is a bank with one fault, which only a crash shows. It names the
// points at which the kit must find it, and no others, and the word in the message.
var mutants = map[string]struct {
	bank   func(t *testing.T) *bank
	change func(s *crashtest.Scenario)
	fails  map[string]string
}{
	"frees the key of what was lost": {bank: freesLost, fails: map[string]string{
		"after book": `"ledger" is there 2 times`, "before Complete": `"ledger" is there 2 times`,
	}},
	"a new key at the provider for each attempt": {bank: anotherKeyEachTime, fails: map[string]string{
		"after book": "2 times", "before Seal answer": "2 times",
	}},
	"writes around the transaction": {bank: aroundTransaction, fails: map[string]string{
		"after book": "2 times", "before Seal answer": "2 times",
	}},
	"a step writes around its segment": {bank: aroundSegment, fails: map[string]string{
		"after book": "2 times", "before Seal answer": "2 times",
	}},
	"a call outside of core.Call rests on nothing": {bank: calledTooEarly, fails: map[string]string{
		"after book": "2 times", "before Seal answer": "2 times",
	}},
	"moves the money after the answer": {bank: afterAnswer, fails: map[string]string{
		"after Complete": "is lost", "before book": "is lost", // before: the client has its answer, and repeats nothing
	}},
	"answers are kept in memory": {bank: answersInMemory, fails: map[string]string{
		"after book": "2 times", "before the answer leaves": "2 times", "while the answer leaves": "2 times",
		"after the answer has arrived": "contradicts",
	}},
	"keys are known, and answers are not": {bank: answersAnew, fails: map[string]string{
		"after the answer has arrived": "contradicts",
	}},
	"a lock for ever": {bank: lockForEver, change: impatient, fails: map[string]string{
		"after lock": "no final answer", "before book": "no final answer", "after book": "no final answer",
		"before unlock": "no final answer",
	}},
	"unknown is not said to be legal": {bank: parking, change: known, fails: map[string]string{
		"after Claim": "outcome_unknown", "before book": "outcome_unknown", "after book": "outcome_unknown",
		"before Complete": "outcome_unknown",
	}},
}

// TestMutants shows what the kit finds, and where.
func TestMutants(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := m.bank(t)
			s := b.scenario()
			if m.change != nil {
				m.change(&s)
			}
			wrong, err := crashtest.Violations(t.Context(), b.app(), s)
			require.NoError(t, err)
			for point, found := range wrong {
				_, words, _ := strings.Cut(point, " ")
				require.Contains(t, strings.Join(found, "\n"), m.fails[words], point)
				require.Contains(t, m.fails, words, "%s: %s", point, found)
			}
			require.Len(t, wrong, len(m.fails), "%v", wrong)
		})
	}
}

func known(s *crashtest.Scenario) { s.Unknown = false }

func impatient(s *crashtest.Scenario) { s.Patience = 500 * time.Millisecond }

// freesLost treats a lost attempt as one that has done nothing.
func freesLost(t *testing.T) *bank {
	b := parking(t)
	b.store = runsAgain{b.store}
	return b
}

type runsAgain struct{ store.Store }

func (s runsAgain) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, c)
	if err == nil && claimed.Record.State() == store.Unknown {
		settled := store.Settlement{ID: c.ID, Fence: claimed.Record.Fence, Who: "a mutant", Why: "it was lost"}
		if _, tooEarly := s.Settle(ctx, settled); tooEarly == nil {
			return s.Store.Claim(ctx, c)
		}
		return store.Claimed{Busy: true}, nil
	}
	return claimed, err
}

// anotherKeyEachTime asks the provider under another key each time.
func anotherKeyEachTime(t *testing.T) *bank {
	b, l := resuming(t), newLedger()
	b.effects = l.effects
	b.pay = func(ctx context.Context, g *crashtest.Gates, order int) error {
		return core.CallDo(ctx, "book", func(context.Context, store.DerivedKey) error {
			g.Around("book", func() { l.book("", order) })
			return nil
		}, core.Dedup(time.Hour))
	}
	return b
}

// aroundSegment books in a step of a Resume route, but not in its segment: the rows stay when the segment is lost.
func aroundSegment(t *testing.T) *bank {
	b, l := resuming(t), newLedger()
	b.effects = l.effects
	b.pay = func(ctx context.Context, g *crashtest.Gates, order int) error {
		_, err := core.Step(ctx, "book", func(context.Context) (int, error) {
			g.Around("book", func() { l.book("", order) })
			return order, nil
		})
		return err
	}
	return b
}

// calledTooEarly pays outside of a core.Call: when the payment leaves, nothing of the step before it is durable.
func calledTooEarly(t *testing.T) *bank {
	b, l := rollingBack(t), newLedger()
	b.recovery, b.effects = store.Resume, l.effects
	b.pay = func(ctx context.Context, g *crashtest.Gates, order int) error {
		err := gormstore.StepDo(ctx, "hold", func(tx *gorm.DB) error {
			_, err := gormstore.CreateOnce(tx, &entry{Paid: order})
			return err
		})
		if err == nil {
			g.Around("book", func() { l.book("", order) })
		}
		return err
	}
	return b
}

// aroundTransaction books on a Rollback route, but not in its transaction.
func aroundTransaction(t *testing.T) *bank {
	b, l := rollingBack(t), newLedger()
	b.effects = l.effects
	b.pay = func(_ context.Context, g *crashtest.Gates, order int) error {
		g.Around("book", func() { l.book("", order) })
		return nil
	}
	return b
}

// afterAnswer moves the money when the answer is recorded: in the background, so to speak.
func afterAnswer(t *testing.T) *bank {
	b, l := parking(t), newLedger()
	b.effects = l.effects
	b.pay = func(context.Context, *crashtest.Gates, int) error { return nil }
	b.guards = func(idem *core.Module, g *crashtest.Gates) []gin.HandlerFunc {
		return []gin.HandlerFunc{func(c *gin.Context) {
			order := orderOf(c)
			held := &heldWriter{ResponseWriter: c.Writer}
			c.Writer = held
			c.Next()
			if held.Header().Get(core.HeaderResult) == core.ResultCreated {
				g.Around("book", func() { l.book("", order) })
			}
			held.release()
		}, ginidem.Idempotent(idem)}
	}
	return b
}

// unguarded is a bank with handmade guards, as many people write them at first.
func unguarded(t *testing.T, guard func(c *gin.Context, g *crashtest.Gates, l *ledger, pay func())) *bank {
	b, l := parking(t), newLedger()
	b.effects = l.effects
	b.guards = func(_ *core.Module, g *crashtest.Gates) []gin.HandlerFunc {
		return []gin.HandlerFunc{func(c *gin.Context) { guard(c, g, l, c.Next) }}
	}
	b.pay = func(_ context.Context, g *crashtest.Gates, order int) error {
		g.Around("book", func() { l.book("", order) })
		return nil
	}
	return b
}

// answersInMemory keeps answers in memory, where a crash loses them.
func answersInMemory(t *testing.T) *bank {
	var lives sync.Map // of gates: answers by key
	return unguarded(t, func(c *gin.Context, g *crashtest.Gates, _ *ledger, pay func()) {
		life, _ := lives.LoadOrStore(g, &sync.Map{})
		answers := life.(*sync.Map)
		key := c.GetHeader(core.DefaultHeader)
		if body, ok := answers.Load(key); ok {
			c.Data(http.StatusCreated, "application/json", body.([]byte))
			c.Abort()
			return
		}
		held := &heldWriter{ResponseWriter: c.Writer}
		c.Writer = held
		pay()
		answers.Store(key, held.body.Bytes())
		held.release()
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
	return unguarded(t, func(c *gin.Context, g *crashtest.Gates, _ *ledger, pay func()) {
		key := c.GetHeader(core.DefaultHeader)
		taken := false
		g.Around("lock", func() { _, taken = marks.LoadOrStore(key, true) })
		if taken {
			if body, ok := answers.Load(key); ok {
				c.Data(http.StatusCreated, "application/json", body.([]byte))
			} else {
				c.JSON(http.StatusConflict, gin.H{"code": core.CodeInFlight})
			}
			c.Abort()
			return
		}
		held := &heldWriter{ResponseWriter: c.Writer}
		c.Writer = held
		pay()
		g.Around("unlock", func() { answers.Store(key, held.body.Bytes()) })
		held.release()
	})
}

// heldWriter keeps an answer back.
type heldWriter struct {
	gin.ResponseWriter
	body bytes.Buffer
}

func (w *heldWriter) Write(p []byte) (int, error)       { return w.body.Write(p) }
func (w *heldWriter) WriteString(s string) (int, error) { return w.body.WriteString(s) }
func (w *heldWriter) release()                          { _, _ = w.ResponseWriter.Write(w.body.Bytes()) }

// orderOf reads the body, and leaves it to be read again.
func orderOf(c *gin.Context) int {
	var in struct{ Order int }
	body, _ := c.GetRawData()
	c.Request.Body = http.NoBody
	_ = json.Unmarshal(body, &in)
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	return in.Order
}
