package main

import (
	"net"
	"net/url"
	"testing"
	"time"
)

// delayed returns the URL of a database behind a proxy that makes each round trip longer by the given time. A server in
// another zone of the same region is about 1 ms away.
func delayed(t testing.TB, databaseURL string, roundTrip time.Duration) (string, error) {
	target, err := url.Parse(databaseURL)
	if err != nil {
		return "", err
	}
	server := target.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = listener.Close() })
	target.Host = listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			backend, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go carry(client, backend, roundTrip/2)
			go carry(backend, client, roundTrip/2)
		}
	}()
	return target.String(), nil
}

// parcel is a part of the data, and when it must be passed on.
type parcel struct {
	data []byte
	due  time.Time
}

// carry passes on what comes, each part so much later, until one side closes the connection.
func carry(from, to net.Conn, delay time.Duration) {
	parcels := make(chan parcel, 1024)
	go func() {
		defer func() { _ = to.Close() }()
		for p := range parcels {
			nap(time.Until(p.due))
			_, _ = to.Write(p.data) // to a closed connection: nobody misses it
		}
	}()
	defer close(parcels)
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		parcels <- parcel{data[:n], time.Now().Add(delay)}
	}
}
