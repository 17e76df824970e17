package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/alexedwards/argon2id"
)

// hashParams is OWASP's floor for argon2id (RELIABILITY.md 6.2).
var hashParams = &argon2id.Params{Memory: 19456, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// concurrentHashes bounds the memory that logins can take together: 19 MiB each.
const concurrentHashes = 4

// passwordHasher hashes and compares passwords, a few at a time.
type passwordHasher struct {
	slots chan struct{}
	// decoy is compared for unknown addresses, so that they take as long.
	decoy string
}

func newPasswordHasher() *passwordHasher {
	decoy, err := argon2id.CreateHash("nobody's password", hashParams)
	if err != nil {
		panic("argon2id: " + err.Error())
	}
	return &passwordHasher{slots: make(chan struct{}, concurrentHashes), decoy: decoy}
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

// matches compares, always at the full cost. stale says that the stored hash
// was made with other parameters than today's.
func (h *passwordHasher) matches(ctx context.Context, password, stored string, known bool) (ok, stale bool, err error) {
	if err := h.acquire(ctx); err != nil {
		return false, false, err
	}
	defer h.release()
	if !known {
		stored = h.decoy
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
