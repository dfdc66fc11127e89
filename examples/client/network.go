package main

import (
	"context"
	"net"
	"net/http"

	"github.com/auth19/idem/internal/cutproxy"
)

// meanLife is how many bytes a connection carries, on average, before it is cut: those of a few requests.
const meanLife = 2500

// through is a network whose connections all go through the proxy, wherever their requests are for. That requests
// name the app itself matters: an intent belongs to the host that it was sent to.
func through(proxy *cutproxy.Proxy, connections int) *http.Transport {
	network := http.DefaultTransport.(*http.Transport).Clone()
	network.Proxy = nil
	network.MaxIdleConnsPerHost = connections
	network.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxy.Addr())
	}
	return network
}
