package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// app is an example app that runs for as long as this program does.
type app struct {
	url, token string // its address, and a token of its customer
	stop       func() // ends it, and waits
}

// startApp builds the example app and starts it in its own process, on an SQLite file in dir.
func startApp(ctx context.Context, dir string) (*app, error) {
	program := filepath.Join(dir, "app.exe") // Windows needs the extension, other systems ignore it
	//nolint:gosec // the folder is our own
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/auth19/idem/examples/gin")
	if printed, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./examples/gin: %w\n%s", err, printed)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // it was built just now
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATABASE_URL=sqlite:"+filepath.Join(dir, "app.db"), "JWT_SECRET=",
		"JWKS_URL=", "PROVIDER_URL=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stderr = &log
	printed, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	a := &app{stop: func() {
		cancel()
		_ = cmd.Wait() // an interrupted process is an error
	}}
	for lines := bufio.NewScanner(printed); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if name == "customer-1" {
			a.token = value
		}
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			a.url = url
			return a, nil
		}
	}
	a.stop()
	return nil, fmt.Errorf("the example app did not start:\n%s", &log)
}
