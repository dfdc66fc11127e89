package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A report takes the place of the one before, and leaves the rest of the page alone.
func TestPage(t *testing.T) {
	const begins, ends = "<!-- try: made by internal/try, do not edit -->\n", "<!-- /try -->\n"
	name := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(name, []byte("before\n"+begins+"old\n"+ends+"after\n"), 0o600))
	page, err := OpenPage(name, "try", "internal/try")
	require.NoError(t, err)
	var r Report
	r.Heading("Figures")
	r.Paragraph("\n%d of them:", 2)
	r.Table([][]string{{"", "a"}, {"b", "1"}})
	require.NoError(t, page.Write(r.String()))
	written, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begins+"### Figures\n\n2 of them:\n\n|  | a |\n| --- | --- |\n| b | 1 |\n"+ends+
		"after\n", string(written))

	_, err = OpenPage(name, "other", "internal/try")
	require.ErrorContains(t, err, "no lines")
	_, err = OpenPage(name+".not", "try", "internal/try")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A ratio is told with the middle half of its rounds.
func TestRatio(t *testing.T) {
	require.Equal(t, "0.50 (0.40 to 0.60)", RatioOf([]float64{90, 50, 10, 40, 60}, []float64{100, 100, 100, 100, 100}).String())
	require.Equal(t, "0.50 (0.38 to 0.62)", RatioOf([]float64{25, 75}, []float64{100, 100}).String())
	require.Equal(t, "NaN (NaN to NaN)", RatioOf(nil, nil).String())
}
