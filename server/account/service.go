// Package account opens, verifies and ends sessions.
//
// A session is a chain of refresh tokens. Each token can be exchanged once for the next
// one. If a token is used a second time, the session is revoked. An access token contains
// the id of its session. The core reads the session on every request, so the access token
// stops working when the session ends.
//
// The package guarantees that a login with an unknown address cannot be distinguished
// from a login with a wrong password, neither by the response nor by its duration. An
// invitation can be accepted once. Passwords and tokens are neither stored nor logged in
// clear text.
//
// The package does not verify that an e-mail address belongs to its user.
package account

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Signer signs access tokens.
type Signer interface {
	Sign(user affiliate.User, session affiliate.SessionID, member *affiliate.Member) (string, error)
}

// Service implements affiliate.v1.AccountService.
type Service struct {
	affiliatev1.UnimplementedAccountServiceServer
	store   Store
	signer  Signer
	hashKey []byte
	hashes  *passwordHasher
	now     func() time.Time
}

// New returns the service. hashKey is the key of the digests of addresses and user
// agents.
func New(store Store, signer Signer, hashKey []byte, now func() time.Time) *Service {
	return &Service{store: store, signer: signer, hashKey: hashKey, hashes: newPasswordHasher(), now: now}
}

// currentTime returns the current time in UTC, truncated to milliseconds, which is the precision
// of the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check rejects the most common passwords, and e-mail addresses with additions such as a
// display name.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if r, ok := req.(interface {
		proto.Message
		GetPassword() string
		GetName() string
	}); ok && r.GetPassword() != "" && affiliate.CommonPassword(r.GetPassword()) {
		found.Add("password", "must not be one of the most common passwords")
	}
	switch r := req.(type) {
	case *affiliatev1.RegisterMerchantRequest:
		checkAddress(r.GetEmail(), &found)
	case *affiliatev1.RegisterPartnerRequest:
		checkAddress(r.GetEmail(), &found)
	}
	return found
}

func checkAddress(email string, found *affiliate.Violations) {
	if !affiliate.BareAddress(email) {
		found.Add("email", affiliate.MustBeEmail)
	}
}
