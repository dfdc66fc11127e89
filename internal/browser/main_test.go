package browser

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/auth19/idem/internal/testhost"
)

// images is the flag that writes the pictures of the documentation anew:
//
//	go test ./internal/browser -images
var images = flag.Bool("images", false, "write the screenshots into docs/images")

func TestMain(m *testing.M) {
	flag.Parse()
	testhost.RunFour()
	goleak.VerifyTestMain(run{m})
}

// run runs the tests, and then ends what they share.
type run struct{ *testing.M }

// Run implements [goleak.TestingM].
func (r run) Run() int {
	code := r.M.Run()
	stopBrowser()
	if err := os.RemoveAll(builds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
