package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

// alertsFire is how long Prometheus may take to notice something that it looks for every second.
const alertsFire = time.Minute

// What compose.yaml starts, from packages: PostgreSQL, the shop, and Prometheus with the rules. An unknown payout pages somebody, and
// the alert leads to the list with that payout. Then the shop is gone, and that pages somebody, too. Only the times that the rules
// wait are shortened.
func TestAlertsFire(t *testing.T) {
	program := os.Getenv("TEST_PROMETHEUS")
	if program == "" {
		found, err := exec.LookPath("prometheus")
		if err != nil {
			t.Skip("there is no Prometheus: bash .ci/alerts fetches Debian's, or name its program in TEST_PROMETHEUS")
		}
		program = found
	}
	p := apptest.Start(t, apptest.Build(t, "."), t.TempDir(), "DATABASE_URL="+pgtest.URL(t), "METRICS_ADDR=127.0.0.1:0", "LEASE=1s",
		"DEADLINE=1s")
	prometheus := startPrometheus(t, program, strings.TrimSuffix(strings.TrimPrefix(metricsURL(t, p), "http://"), "/metrics"))

	do(t, p, commands(t, p, "README.md", "See an alert", "")[0], http.StatusInternalServerError)
	alert := untilFiring(t, prometheus, "IdemOperationUnknown")
	require.Equal(t, "/v1/payouts: 1 ", alert["operations"])
	list := do(t, p, apptest.Request{Method: http.MethodGet, Path: alert["inspector"],
		Header: http.Header{"Cookie": {"idem-operator=" + p.Tokens["operator-1"]}}}, http.StatusOK)
	require.Contains(t, list.Body, "12.50", "the list that the alert names has the payout")

	require.Zero(t, p.Stop(t))
	require.Contains(t, untilFiring(t, prometheus, "IdemMetricsMissing")["runbook_url"], "#idemmetricsmissing")
}

// startPrometheus starts a server with the rules, which reads the metrics of one app, and returns its address.
func startPrometheus(t *testing.T, program, metrics string) (url string) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, text string, shorter ...string) {
		text = strings.NewReplacer(shorter...).Replace(text)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	write("prometheus.yml", content(t, "prometheus.yml"), "15s", "1s", "shop:9464", metrics)
	write("rules.yml", content(t, "../../docs/observability/rules.yml"), "15 * 60", "1", "for: 10m", "for: 1s")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())

	server := exec.Command(program, "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address)
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "http://" + address
}

// untilFiring waits for an alert, and returns its annotations.
func untilFiring(t *testing.T, prometheus, name string) (annotations map[string]string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(t, func() bool {
		response, err := client.Get(prometheus + "/api/v1/alerts")
		if err != nil {
			return false // it is starting
		}
		defer response.Body.Close()
		var all struct {
			Data struct {
				Alerts []struct {
					Labels, Annotations map[string]string
					State               string
				}
			}
		}
		text, err := io.ReadAll(response.Body)
		if err != nil || json.Unmarshal(text, &all) != nil {
			return false
		}
		for _, a := range all.Data.Alerts {
			if a.Labels["alertname"] == name && a.State == "firing" {
				annotations = a.Annotations
				return true
			}
		}
		return false
	}, alertsFire, 200*time.Millisecond, name)
	return annotations
}
