package gormstore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SealingKey is a key of [AESGCM]. The name stands in front of what is sealed, so that a key can be followed by the next
// one: a date, say. It is no secret.
type SealingKey struct {
	Name string // 1 to 64 visible characters of ASCII; a name never stands for two keys
	Key  []byte // 32 random bytes
}

// Format implements [fmt.Formatter]. The key itself is never printed.
func (k SealingKey) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "sealing key %q", k.Name) }

// MarshalText implements [encoding.TextMarshaler], as Format does: for logs in JSON.
func (k SealingKey) MarshalText() ([]byte, error) { return fmt.Append(nil, k), nil }

const (
	sealingKeySize = 32
	maxKeyName     = 64
	xaesNonceSize  = 24
	xaesFormat     = 1 // of what AESGCM has sealed: this byte, the length of the name, the name, the nonce, the message
)

// keyring is what AESGCM returns.
type keyring struct {
	current string
	keys    map[string]*xaes
}

// AESGCM returns an [AEAD] for [Seal] and [Unseal] that seals with current, and opens what any of the keys has sealed. It is
// XAES-256-GCM (https://c2sp.org/XAES-256-GCM): a key of its own for each message, derived from a random nonce of 24 bytes.
// So there is no counter, and no number of messages after which a key has to be replaced. To replace one, give the new key
// to all instances as an older one first, and make it the current one then. A key stays among the older ones as long as
// anything is kept that it has sealed.
//
// Errors: a name or a key that is none; two keys of one name.
func AESGCM(current SealingKey, older ...SealingKey) (AEAD, error) {
	ring := &keyring{current: current.Name, keys: map[string]*xaes{}}
	for _, key := range append([]SealingKey{current}, older...) {
		switch {
		case !isKeyName(key.Name):
			return nil, fmt.Errorf("idem: gormstore.AESGCM: Name %q: want 1 to %d visible characters of ASCII", key.Name, maxKeyName)
		case ring.keys[key.Name] != nil:
			return nil, fmt.Errorf("idem: gormstore.AESGCM: two keys have the Name %q; give each its own", key.Name)
		case len(key.Key) != sealingKeySize || bytes.Count(key.Key, []byte{0}) == sealingKeySize:
			return nil, fmt.Errorf("idem: gormstore.AESGCM: Key of %q: want %d random bytes (openssl rand 32), not %d bytes that "+
				"are text or zero", key.Name, sealingKeySize, len(key.Key))
		}
		x, err := newXAES(key.Key)
		if err != nil {
			return nil, fmt.Errorf("idem: gormstore.AESGCM: Key of %q: %w", key.Name, err)
		}
		ring.keys[key.Name] = x
	}
	return ring, nil
}

func isKeyName(name string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	return name != "" && len(name) <= maxKeyName && !strings.ContainsFunc(name, hidden)
}

// Encrypt implements [AEAD].
func (k *keyring) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	sealed := make([]byte, 0, 2+len(k.current)+xaesNonceSize+len(plaintext)+aes.BlockSize)
	sealed = append(append(sealed, xaesFormat, byte(len(k.current))), k.current...) //nolint:gosec // at most maxKeyName
	nonce := sealed[len(sealed) : len(sealed)+xaesNonceSize]
	rand.Read(nonce) // never fails since Go 1.24
	message, nonce12, err := k.keys[k.current].derive(nonce)
	if err != nil {
		return nil, err
	}
	return message.Seal(sealed[:len(sealed)+xaesNonceSize], nonce12, plaintext, associatedData), nil
}

// Decrypt implements [AEAD].
func (k *keyring) Decrypt(sealed, associatedData []byte) ([]byte, error) {
	name, ok := k.KeyName(sealed)
	switch {
	case !ok:
		return nil, errors.New("it was not sealed by AESGCM")
	case k.keys[name] == nil:
		return nil, fmt.Errorf("it was sealed with the key %q, which is not given", name)
	}
	sealed = sealed[2+len(name):]
	message, nonce, err := k.keys[name].derive(sealed[:xaesNonceSize])
	if err != nil {
		return nil, err
	}
	return message.Open(nil, nonce, sealed[xaesNonceSize:], associatedData)
}

// KeyName implements [KeyNamer].
func (*keyring) KeyName(sealed []byte) (name string, ok bool) {
	if len(sealed) < 2 || sealed[0] != xaesFormat || len(sealed) < 2+int(sealed[1])+xaesNonceSize {
		return "", false
	}
	name = string(sealed[2 : 2+int(sealed[1])])
	return name, isKeyName(name)
}

// has reports whether the key of a name is given.
func (k *keyring) has(name string) bool { return k.keys[name] != nil }

// xaes is a key of XAES-256-GCM.
type xaes struct {
	block cipher.Block
	k1    [aes.BlockSize]byte // the subkey of CMAC
}

func newXAES(key []byte) (*xaes, error) {
	block, err := aes.NewCipher(slices.Clone(key))
	if err != nil {
		return nil, err
	}
	x := &xaes{block: block}
	block.Encrypt(x.k1[:], x.k1[:])
	var carry byte
	for i := len(x.k1) - 1; i >= 0; i-- {
		x.k1[i], carry = x.k1[i]<<1|carry, x.k1[i]>>7
	}
	x.k1[len(x.k1)-1] ^= byte(subtle.ConstantTimeSelect(int(carry), 0b10000111, 0)) //nolint:gosec // a byte
	return x, nil
}

// derive returns the AES-256-GCM of a nonce of 24 bytes, and its own nonce: the last 12 of them. The key is made of the
// first ones, by two blocks of CMAC.
func (x *xaes) derive(nonce []byte) (cipher.AEAD, []byte, error) {
	key := make([]byte, 0, sealingKeySize)
	for i := byte(1); i <= 2; i++ {
		m := append([]byte{0, i, 'X', 0}, nonce[:12]...)
		subtle.XORBytes(m, m, x.k1[:])
		x.block.Encrypt(m, m)
		key = append(key, m...)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, nonce[12:], err
}
