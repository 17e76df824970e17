// Package account registers users, and opens, refreshes and ends their sessions. It
// verifies and changes e-mail addresses and resets passwords with tokens that it mails.
//
// At any time a session has one valid refresh token. A client exchanges this token for a
// new one. If a client sends a token that was already exchanged, the session is revoked,
// because the token may have been stolen. A session of a browser has a secret instead, which
// stays the same until the session ends. An access token contains the id of its session.
// The server reads the session from the database in every request, so an access token
// stops working when its session ends.
//
// The package guarantees that a client cannot distinguish a login with an unknown address
// from a login with a wrong password, either by the response or by its duration. The same
// is true for a reset of a password and for the new address of an account. A request for a
// reset or for a change of the address is stored without a look-up of the address. A job
// looks it up and sends the mails. An invitation can be accepted once, and a mailed token
// can be used once. Passwords and tokens are not stored or logged in clear text. The token
// of a mail that was not sent yet is stored encrypted.
//
// An account can have a second factor: codes of an authenticator app (TOTP). A login with the
// right password then opens no session, but stores a challenge that a code completes. Each
// code and each recovery code works once, also in parallel requests. A reset of the password
// does not remove the second factor. The secret is stored encrypted, and recovery codes and
// challenges as digests.
//
// A registration, or the acceptance of an invitation, can fail because the address has an
// account, and then reveals the account. A user can log in before the address is verified.
//
// The package does not guarantee that a mail arrives. It stores mails in the transaction
// of their cause, and a job of another package sends them.
package account

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Signer signs access tokens.
type Signer interface {
	Sign(user account.User, session affiliate.SessionID, member *account.Member) (string, error)
}

// Sealer encrypts and decrypts values. seal.Keys implements it.
type Sealer interface {
	server.MailSealer
	server.Sealer
}

// Config has the dependencies of a Service. All fields are required.
type Config struct {
	DB     *postgres.DB
	Signer Signer
	// Seal encrypts the tokens of mails and the secrets of second factors.
	Seal Sealer
	// HashKeys are the secret keys with which e-mail addresses and user agents are hashed.
	HashKeys affiliate.HashKeys
	// Limiter counts the calls about sessions of browsers.
	Limiter server.Limiter
	// MerchantRegistration and PartnerRegistration say who can create an account.
	MerchantRegistration, PartnerRegistration account.Registration
	// Now is the clock.
	Now func() time.Time
}

// Service implements affiliate.v1.AccountService.
type Service struct {
	affiliatev1.UnimplementedAccountServiceServer
	Config
	hashes *passwordHasher
}

// New returns the service.
func New(c Config) *Service { return &Service{Config: c, hashes: newPasswordHasher()} }

func (s *Service) currentTime() time.Time { return s.Now().UTC().Truncate(time.Millisecond) } // the precision of the API

// Check rejects passwords that are easy to guess, names that must not appear in mails, and
// e-mail addresses that contain more than the address, for example a display name.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch r := req.(type) {
	case *affiliatev1.RegisterMerchantRequest:
		checkPassword("password", r.GetPassword(), r.GetName(), r.GetEmail(), &found)
		checkAddress("email", r.GetEmail(), &found)
		server.CheckName("name", r.GetName(), &found)
		server.CheckName("workspace_name", r.GetWorkspaceName(), &found)
	case *affiliatev1.RegisterPartnerRequest:
		checkPassword("password", r.GetPassword(), r.GetName(), r.GetEmail(), &found)
		checkAddress("email", r.GetEmail(), &found)
		server.CheckName("name", r.GetName(), &found)
	case *affiliatev1.AcceptInviteRequest:
		checkPassword("password", r.GetPassword(), r.GetName(), "", &found)
		server.CheckName("name", r.GetName(), &found)
	case *affiliatev1.ResetPasswordRequest:
		// The reset checks the password again with the stored name.
		checkPassword("password", r.GetPassword(), "", "", &found)
	case *affiliatev1.ChangePasswordRequest:
		// The change checks the password again with the stored name and address.
		checkPassword("new_password", r.GetNewPassword(), "", "", &found)
		if r.GetNewPassword() != "" && r.GetNewPassword() == r.GetCurrentPassword() {
			found.Add("new_password", "must not be the current password")
		}
	case *affiliatev1.UpdateMerchantAccountRequest:
		server.CheckMask(r, &found, "name", "locale")
		server.CheckName("name", r.GetName(), &found)
	case *affiliatev1.ForgotPasswordRequest:
		checkAddress("email", r.GetEmail(), &found)
	case *affiliatev1.ChangeEmailRequest:
		checkAddress("new_email", r.GetNewEmail(), &found)
	}
	return found
}

// checkPassword adds a violation of the field if a password is easy to guess. The validation
// of the message rejects an empty password.
func checkPassword(field, password, name, email string, found *affiliate.Violations) {
	switch {
	case password == "":
	case account.CommonPassword(password):
		found.Add(field, "must not be one of the most common passwords")
	case account.PersonalPassword(password, name, email):
		found.Add(field, "must not be the name or the e-mail address")
	}
}

func checkAddress(field, email string, found *affiliate.Violations) {
	if !account.BareAddress(email) {
		found.Add(field, affiliate.MustBeEmail)
	}
}

// sessionResponse returns the response to a call that opened or refreshed a session. The
// response contains a new access token. workspace is nil if the account belongs to a
// partner. refresh is empty for a browser.
func (s *Service) sessionResponse(
	holder account.Account, workspace *account.Workspace, session affiliate.SessionID, refresh string,
) (*affiliatev1.SessionResponse, error) {
	access, err := s.Signer.Sign(holder.User, session, holder.Member)
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.SessionResponse{
		AccessToken:  access,
		RefreshToken: refresh,
		TokenType:    "Bearer",
		ExpiresIn:    int64(account.AccessTokenLife.Seconds()),
		User:         userToProto(holder),
	}
	if workspace != nil {
		resp.Workspace = server.WorkspaceForRole(*workspace, holder.Member.Role)
	}
	return resp, nil
}

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

// dummyPasswordHash returns the value of passwordHasher.dummyHash. A process computes it
// only once, because this takes 30 ms.
var dummyPasswordHash = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash("nobody's password", hashParams)
	if err != nil {
		panic("argon2id: " + err.Error())
	}
	return hash
})

// UnusableHash returns a hash to which no password is known, because its key is random. An
// account that another person creates for its owner has such a hash until the owner sets a
// password. A login attempt takes as long as for any other account.
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
