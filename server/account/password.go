package account

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/alexedwards/argon2id"
)

// hashParams are the minimum parameters that OWASP recommends for argon2id
// (https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html).
var hashParams = &argon2id.Params{Memory: 19456, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// concurrentHashes is the maximum number of passwords that are hashed at the same time.
// Hashing one password needs 19 MiB of memory.
const concurrentHashes = 4

// passwordHasher computes password hashes and compares passwords with them. At most
// concurrentHashes of these operations run at the same time.
type passwordHasher struct {
	slots chan struct{}
	// dummyHash is the hash with which matches compares the password if the account does
	// not exist. The comparison then takes as long as for an existing account.
	dummyHash string
}

func newPasswordHasher() *passwordHasher {
	return &passwordHasher{slots: make(chan struct{}, concurrentHashes), dummyHash: dummyPasswordHash()}
}

// dummyPasswordHash returns the dummyHash of all hashers. A process computes it only once,
// because this takes 30 ms.
var dummyPasswordHash = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash("nobody's password", hashParams)
	if err != nil {
		panic("argon2id: " + err.Error())
	}
	return hash
})

// UnusableHash returns a hash that no known password has: its key is random. It is the
// password hash of an account that somebody else makes, until its owner sets a password. A
// login attempt takes as long as for any other account.
func UnusableHash() string {
	random := make([]byte, hashParams.SaltLength+hashParams.KeyLength)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	// The last two parts of a hash are the salt and the key.
	parts := strings.Split(dummyPasswordHash(), "$")
	parts[len(parts)-2] = base64.RawStdEncoding.EncodeToString(random[:hashParams.SaltLength])
	parts[len(parts)-1] = base64.RawStdEncoding.EncodeToString(random[hashParams.SaltLength:])
	return strings.Join(parts, "$")
}

func (h *passwordHasher) acquire(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *passwordHasher) release() { <-h.slots }

func (h *passwordHasher) hash(ctx context.Context, password string) (string, error) {
	if err := h.acquire(ctx); err != nil {
		return "", err
	}
	defer h.release()
	return argon2id.CreateHash(password, hashParams)
}

// matches reports whether a password matches a stored hash. known is false if the account
// does not exist. The result ok is then false, but the call takes as long as for an
// existing account. outdated is true if the stored hash was created with parameters other
// than hashParams.
func (h *passwordHasher) matches(ctx context.Context, password, stored string, known bool) (ok, outdated bool, err error) {
	if err := h.acquire(ctx); err != nil {
		return false, false, err
	}
	defer h.release()
	if !known {
		stored = h.dummyHash
	}
	ok, params, err := argon2id.CheckHash(password, stored)
	if err != nil {
		if errors.Is(err, argon2id.ErrInvalidHash) {
			err = fmt.Errorf("stored password hash: %w", err)
		}
		return false, false, err
	}
	return ok && known, *params != *hashParams, nil
}
