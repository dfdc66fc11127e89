package main

import (
	"context"
	"net"
	"net/http"

	"github.com/auth19/idem/internal/cutproxy"
)

// meanLife is the mean number of bytes that a connection carries before it is cut: enough for a few requests.
const meanLife = 2500

// through returns a transport whose connections all go through the proxy. The requests still name the app as their host,
// because an intent belongs to the host that it was sent to.
func through(proxy *cutproxy.Proxy, connections int) *http.Transport {
	network := http.DefaultTransport.(*http.Transport).Clone()
	network.Proxy = nil
	network.MaxIdleConnsPerHost = connections
	network.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, proxy.Addr())
	}
	return network
}
