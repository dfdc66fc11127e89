package gormstore_test

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/auth19/idem/gormstore"
)

// unwrap stands for a call of the KMS: once, when the app starts, and never for each answer.
func unwrap(_ context.Context, wrapped string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(wrapped)
}

// What the store records of answers and steps cannot be read in a dump. Before Seal is switched on, every instance has the
// key with Unseal.
func ExampleSeal() {
	db, done := exampleDB()
	defer done()
	current, err := unwrap(context.Background(), "vNFQ3u1GbVh0cTq6yBq2b5Jp0Zt8c3eQm0o0VYw7xkE=")
	must(err)
	key := gormstore.SealingKey{Name: "2026-a", Key: current}
	aead, err := gormstore.AESGCM(key) // and the older keys behind it
	must(err)
	store, err := gormstore.New(db, gormstore.Seal(aead))
	must(err)
	defer func() { _ = store.Close() }()
	fmt.Println(key) // never the key itself
	// Output: sealing key "2026-a"
}
