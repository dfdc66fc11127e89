package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// life is one life of an app, from its start to its crash.
type life struct {
	url   string
	gates *Gates
	kill  func() // the app is dead when it returns; to be called more than once
	log   func() string
	warm  bool // it has worked before: what a process does only once is done
}

// begin starts the app in a lane.
func begin(app App, lane int, patience time.Duration) (l *life, err error) {
	ctx, over := context.WithCancel(context.Background())
	gates := NewGates()
	gates.lane = lane
	defer func() {
		if err != nil {
			over()
			gates.Close()
		}
	}()
	if app.Handler != nil {
		l, err = serve(ctx, app, gates)
	} else {
		l, err = spawn(ctx, app, gates, patience)
	}
	if err != nil {
		return nil, err
	}
	end := l.kill
	l.gates, l.kill = gates, sync.OnceFunc(func() {
		end()
		over()
		gates.Close()
	})
	return l, nil
}

// serve starts an app in this process.
func serve(ctx context.Context, app App, g *Gates) (*life, error) {
	handler, err := app.Handler(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("idem: crashtest: App.Handler: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("idem: crashtest: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return &life{
		url: "http://" + listener.Addr().String(),
		kill: func() {
			g.Kill() // first: a handler that is at work must not get its answer out
			_ = server.Close()
			serving.Wait()
		},
		log: func() string { return "" },
	}, nil
}

// spawn starts an app as a process of its own.
func spawn(ctx context.Context, app App, g *Gates, patience time.Duration) (*life, error) {
	cmd, err := app.Command(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("idem: crashtest: App.Command: %w", err)
	}
	var out output
	cmd.Stdout, cmd.Stderr = out.and(cmd.Stdout), out.and(cmd.Stderr)
	cmd.WaitDelay = time.Second // for a child of the app that keeps the outputs open
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("idem: crashtest: App.Command: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(ended)
	}()
	l := &life{log: out.String, kill: func() {
		_ = cmd.Process.Kill() // SIGKILL
		<-ended
	}}
	deadline := time.Now().Add(patience)
	for l.url = listening(ctx, app, &out); l.url == ""; l.url = listening(ctx, app, &out) {
		select {
		case <-ended:
			err = fmt.Errorf("idem: crashtest: the app has ended: %v", cmd.ProcessState)
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(deadline) {
				err = errors.New("idem: crashtest: the app does not listen; set App.URL, or let it print where it listens")
			}
		}
		if err != nil {
			l.kill()
			return nil, fmt.Errorf("%w\n%s", err, out.String())
		}
	}
	return l, nil
}

var printedURL = regexp.MustCompile(`http://[^\s"'/]+`)

// listening is where the app listens, "" if it does not listen yet.
func listening(ctx context.Context, app App, out *output) string {
	if app.URL == "" {
		text := out.String()
		return printedURL.FindString(text[:strings.LastIndexByte(text, '\n')+1]) // of whole lines
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", strings.TrimPrefix(app.URL, "http://"))
	if err != nil {
		return ""
	}
	_ = conn.Close()
	return app.URL
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns all of it.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// and writes to another writer too, if there is one.
func (o *output) and(other io.Writer) io.Writer {
	if other == nil {
		return o
	}
	return io.MultiWriter(o, other)
}
