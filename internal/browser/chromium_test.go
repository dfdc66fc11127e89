package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// programVariable names the browser's program.
const programVariable = "TEST_CHROMIUM"

// programs are looked for in the PATH, in this order, and then in the places where macOS has its applications.
var programs = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	"/Applications/Chromium.app/Contents/MacOS/Chromium",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// errNotInstalled says that no browser was found and none was named.
var errNotInstalled = errors.New("no Chromium and no Chrome was found: install one, or name its program in " + programVariable)

// hint follows the message of a test that cannot have a browser.
const hint = "TestChromiumAvailable prints how to install it: go test -run TestChromiumAvailable ./internal/browser"

const installLines = `%v

Let the script install it:

  sh .ci/test -run TestChromiumAvailable ./internal/browser

Or install it yourself, as root:

  Debian           apt-get install -y chromium
  Ubuntu           apt-get install -y chromium-browser   (a snap, which does not work in most containers: there, Google's Chrome)
  Fedora           dnf install -y chromium
  Alpine           apk add chromium font-dejavu
  macOS            brew install --cask google-chrome

Or name the program of a Chromium or Chrome:

  TEST_CHROMIUM=/opt/chrome/chrome go test ./internal/browser
`

// TestChromiumAvailable is the one test that fails where there is no browser: those that need one are skipped.
func TestChromiumAvailable(t *testing.T) {
	if _, err := browser(); err != nil {
		t.Fatalf(installLines, err)
	}
}

// findProgram returns the program of the browser.
func findProgram() (string, error) {
	if named := os.Getenv(programVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programVariable, err)
		}
		return path, nil
	}
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", errNotInstalled
}

// startWithin is how long the browser may take to start. The first start on a busy machine takes seconds.
const startWithin = time.Minute

// browser returns the context of the one browser that all tests of this process share. It is started for the first test
// that asks for it, and stopBrowser ends it.
var browser = sync.OnceValues(func() (context.Context, error) {
	program, err := findProgram()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		// The sandbox cannot be had as root and in most containers. It protects against strange pages; these are our own.
		chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), // containers have little shared memory
		chromedp.WSURLReadTimeout(startWithin),
		chromedp.Env("LANGUAGE=en_US", "LC_ALL=en_US.UTF-8"), // fields for times are typed as Americans do
	)
	allocator, stopProgram := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	stopBrowser = func() {
		closeBrowser()
		stopProgram()
	}
	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", program, err)
	}
	return ctx, nil
})

// stopBrowser ends the browser and waits for its process.
var stopBrowser = func() {}
