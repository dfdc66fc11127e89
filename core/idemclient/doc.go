// Package idemclient sends money commands over HTTP so that each is carried out at most once. It uses one key for each
// intent in all attempts, and repeats only attempts that may be repeated (contract C).
//
//	client, err := idemclient.New(idemclient.Config{Authorize: token})
//	...
//	res, err := client.Do(ctx, "order-7/pay", req)
//
// The intent is the caller's own name for something that must happen once. The same name is the same command, and gets
// the same key. With a journal in a database, that of gormstore/journal, the key survives a restart. Inside a guarded
// handler the intent names the call, and the key is derived from the handler's own operation (C-3).
package idemclient
