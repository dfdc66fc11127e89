//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// app is an example app in a process of its own.
type app struct {
	*process
	url    string
	tokens map[string]string // ready-made, by name: customer-1, operator-1
}

// startApp builds one of the example apps, "gin" or "echo", and starts it as name.
func startApp(ctx context.Context, r *room, framework, name string, env ...string) (*app, error) {
	program := r.path(framework + ".app")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/auth19/idem/examples/"+framework)
	if printed, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./examples/%s: %w\n%s", framework, err, printed)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "JWT_SECRET=", "JWKS_URL=", "LEASE=5s", "DEADLINE=", "RETENTION=",
		"UNSAFE_SIMULATOR=", "PROVIDER_URL=", "PROVIDER_TOKEN=")
	cmd.Env = append(cmd.Env, env...)
	p, err := r.launch(name, cmd)
	if err != nil {
		return nil, err
	}
	a := &app{process: p}
	err = await(ctx, name+" listens", func() bool { return a.read() || a.hasEnded() })
	if err == nil && a.url == "" {
		err = fmt.Errorf("%s did not start:\n%s", name, a.log())
	}
	return a, err
}

// read takes the address and the tokens out of what the app has printed; false where they are not there yet.
func (a *app) read() bool {
	tokens := map[string]string{}
	for line := range strings.Lines(a.log()) {
		line = strings.TrimSpace(line)
		if name, token, ok := strings.Cut(line, ": eyJ"); ok {
			tokens[name] = "eyJ" + token
		}
		if url, ok := strings.CutPrefix(line, "listening on "); ok {
			a.url, a.tokens = url, tokens
			return true
		}
	}
	return false
}

// ledger reads all that the app has booked.
func (a *app) ledger(ctx context.Context) (lines []line, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/ledger", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+a.tokens["operator-1"])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: its ledger answers %s", a.name, response.Status)
	}
	return lines, json.NewDecoder(response.Body).Decode(&lines)
}
