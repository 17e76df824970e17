// Package account registers users, and opens, refreshes and ends their sessions.
//
// At any time a session has one valid refresh token. A client exchanges this token for a
// new one. If a client sends a token that was already exchanged, the session is revoked,
// because the token may have been stolen. An access token contains the id of its session.
// The server reads the session from the database in every request, so an access token
// stops working when its session ends.
//
// The package guarantees that a client cannot distinguish a login with an unknown address
// from a login with a wrong password, either by the response or by its duration. An
// invitation can be accepted once. Passwords and tokens are not stored or logged in clear
// text.
//
// The package does not verify that an e-mail address belongs to the user who registers
// it.
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

// New returns the service. hashKey is the secret key with which e-mail addresses and user
// agents are hashed. now is the clock.
func New(store Store, signer Signer, hashKey []byte, now func() time.Time) *Service {
	return &Service{store: store, signer: signer, hashKey: hashKey, hashes: newPasswordHasher(), now: now}
}

// currentTime returns the current time in UTC, truncated to the precision of the API,
// which is milliseconds.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check rejects the most common passwords. It also rejects e-mail addresses that contain
// more than the address, for example a display name.
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
