// Package account opens, verifies and ends sessions.
//
// A session is a family of refresh tokens. Each token works once, and the reuse of a
// used token revokes the session. Access tokens name their session, which the core
// reads on every request, so they end with it.
//
// The response to a login is the same, and takes as long, for an unknown address as for
// a wrong password. An invitation makes one member however often it is accepted. No
// password or token is stored or logged in clear text. It is not verified that an
// address belongs to its user.
package account

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Signer makes access tokens.
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

// New makes the service. hashKey keys the digests under which failed logins are
// counted.
func New(store Store, signer Signer, hashKey []byte, now func() time.Time) *Service {
	return &Service{store: store, signer: signer, hashKey: hashKey, hashes: newPasswordHasher(), now: now}
}

// at returns the time of a call: UTC, in milliseconds, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check refuses the most common passwords, and addresses that contain more than an
// address.
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
