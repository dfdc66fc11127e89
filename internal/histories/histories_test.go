package histories

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/harness"
	"github.com/auth19/idem/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedFlag     = flag.Uint64("seed", 0, "of the first round, or of the long run; 0 takes one at random")
	faultsFlag   = flag.Duration("faults", 200*time.Millisecond, "from one fault to the next, on average; 0 brings none")
	clientsFlag  = flag.Int("clients", 0, "how many send requests at the same time; 0 is 8 in TestHistories, 64 in TestLongRun")
	forFlag      = flag.Duration("for", 0, "how long TestHistories goes on; 0 is one round")
	roundFlag    = flag.Duration("round", 5*time.Second, "how long one history is; more than 12s is hard to check")
	requestsFlag = flag.Int64("requests", 1000, "how many TestLongRun sends before the faults end")
)

// chosenSeed returns the seed of the flag, or one at random.
func chosenSeed() uint64 {
	return cmp.Or(*seedFlag, rand.Uint64N(1<<32))
}

// patience is how long porcupine may look at one key.
const patience = time.Minute

// TestHistories lets random histories happen, and checks them.
//
// CONTRACT M-1, M-2, M-3, M-4, M-5, M-6, R-2, R-5, X-2, X-4, X-7, F-1, F-2
func TestHistories(t *testing.T) {
	seed := chosenSeed()
	gin, echo := harness.Build(t, "gin"), harness.Build(t, "echo")
	for began := time.Now(); ; seed++ {
		var h History
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { // at its end, its servers and apps are gone
			w := newWorld(t, seed, []*pgtest.Cluster{pgtest.Own(t)}, gin, echo)
			if *roundFlag > 10*time.Second { // long enough for a second server
				w.standby = w.databases[0].Standby()
			}
			var faults map[string]int
			h, faults = generate(t, w, options{seed: seed, clients: cmp.Or(*clientsFlag, 8), faults: *faultsFlag, length: *roundFlag})
			t.Logf("%d operations on %d keys; %v; %v", len(h.Ops), len(h.keys()), h.summary(), faults)
		})
		if !ok {
			return
		}
		requireLegal(t, h)
		if time.Since(began) > *forFlag {
			return
		}
	}
}

// requireLegal checks a history, and keeps what is not legal.
func requireLegal(t *testing.T, h History) {
	t.Helper()
	v := Check(h, patience)
	wrong := slices.Concat(v.Illegal, v.TooLarge)
	for _, key := range wrong[:min(len(wrong), maxKept)] {
		drawing, err := h.Keep(filepath.Join("testdata", "found"), key)
		require.NoError(t, err)
		t.Logf("kept: internal/histories/%s. Move its .json to testdata/illegal where the app was wrong, to testdata/legal "+
			"where the model was\n%s", drawing, h.text(key))
	}
	require.Empty(t, v.Illegal, "seed %d: no order explains the history of these keys", h.Seed)
	require.Empty(t, v.TooLarge, "seed %d: the history of these keys could not be checked within %v", h.Seed, patience)
}

// maxKept is how many keys of a history are kept.
const maxKept = 5

// TestSplitBrain shows that a history finds what it should: instances that do not share their database.
func TestSplitBrain(t *testing.T) {
	gin := harness.Build(t, "gin")
	w := newWorld(t, 1, []*pgtest.Cluster{pgtest.Own(t), pgtest.Own(t)}, gin, gin)
	h, _ := generate(t, w, options{seed: 1, clients: 4, length: time.Second})
	require.Positive(t, h.summary()["201 created"], h.summary())
	require.NotEmpty(t, Check(h, patience).Illegal)
}

// TestKept checks the histories that were kept: of apps with a fault, and of a sound app when the model had a fault. Those
// of commit-not-read-back, unknown-run-again and settled-twice come from a store that was broken on purpose: it did not read
// back an indeterminate COMMIT, it took over unknown Park attempts, or it settled operations with an answer.
// lost-in-failover is of a standby that lagged and that no COMMIT waited for: the loss that F-2 describes.
func TestKept(t *testing.T) {
	for folder, legal := range map[string]bool{"illegal": false, "legal": true} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
		require.NoError(t, err)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				h, err := Load(file)
				require.NoError(t, err)
				v := Check(h, patience)
				require.Empty(t, v.TooLarge)
				require.Equal(t, legal, len(v.Illegal) == 0)
			})
		}
	}
}
