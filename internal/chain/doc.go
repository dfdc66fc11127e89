// Package chain proves that money commands are carried out once through two services, each with this library: a client
// calls one, and its handler calls the other. Connections are cut at any byte and requests are doubled on both ways, and
// both services are killed in between. Everything is in its test.
//
//	go test -race ./internal/chain -intents 2000 -v
//	go test -race ./internal/chain -intents 2000 -v -seed 42     # the same cuts of the same connections
package chain
