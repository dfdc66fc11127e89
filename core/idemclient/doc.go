// Package idemclient sends money commands over HTTP so that each is carried out at most once, however often it is
// repeated: one key per intent, the same in all attempts, and only such attempts as may be repeated (contract C).
//
//	client, err := idemclient.New(idemclient.Config{Authorize: token})
//	...
//	res, err := client.Do(ctx, "order-7/pay", req)
//
// The intent is the caller's own name for what is to happen once: the same name is the same command, and gets the same
// key. With a [intents.Journal] it keeps the key over a restart. Inside a guarded handler it names the call, and the key is
// derived from the handler's own operation (C-3).
package idemclient
