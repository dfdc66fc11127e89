package app

import (
	"crypto/sha256"

	"github.com/auth19/idem/gormstore"
)

// sealed seals answers and results of steps, with a key that is no secret.
func sealed() gormstore.Option {
	key := sha256.Sum256([]byte("newer"))
	aead, err := gormstore.AESGCM(gormstore.SealingKey{Name: "newer", Key: key[:]})
	if err != nil {
		panic(err)
	}
	return gormstore.Seal(aead)
}
