package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Source is the database, which contains the current state. A method with a limit returns
// the entries after its starting point, in an order that the method chooses. If it
// returns fewer entries than the limit, there are no more.
type Source interface {
	// DirectoryVersion returns a new version, which is higher than all earlier ones. The
	// caller takes it before it reads the state that it writes.
	DirectoryVersion(ctx context.Context) (int64, error)
	// WorkspacePublicKeys reads all public keys of a workspace, including expired and
	// revoked keys.
	WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.PublicKeyTarget, error)
	// PublicKeysAfter reads the public keys of all workspaces that follow the key after.
	// The first page follows the zero key.
	PublicKeysAfter(ctx context.Context, after affiliate.APIKey, limit int) ([]affiliate.PublicKeyTarget, error)
	// ParticipantReferralTargets reads the referral codes of one participant, with their
	// links and discounts. Here and below, only promo codes that are usable at the time at
	// are discounts.
	ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID, at time.Time) ([]affiliate.ReferralTarget, error)
	// ProgramReferralTargets reads the referral codes of a programme that follow the code
	// after. The first page follows the empty code.
	ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, at time.Time, after string, limit int) ([]affiliate.ReferralTarget, error)
	// ReferralTargetsAfter reads the referral codes of all workspaces that follow the
	// target after. The first page follows the zero target.
	ReferralTargetsAfter(ctx context.Context, after affiliate.ReferralTarget, at time.Time, limit int) ([]affiliate.ReferralTarget, error)
}

// Sink is the edge directory. A write changes an entry only if its version is higher than
// the stored one. R and B are types of the implementation: R identifies a rebuild, and B
// is a batch of writes.
type Sink[R any, B Batch] interface {
	// Batch returns an empty batch for many entries. When it is written, collectors drop
	// their whole caches.
	Batch() B
	// Changes returns an empty batch for a few entries. When it is written, collectors
	// drop only these entries from their caches.
	Changes() B
	// Complete reports whether the directory has the marker of a complete directory.
	Complete(ctx context.Context) (bool, error)
	// BeginRebuild starts a rebuild.
	BeginRebuild(ctx context.Context) (R, error)
	// MarkComplete ends a rebuild and sets the marker. It returns false if the directory
	// has lost data since BeginRebuild, or if another rebuild has begun.
	MarkComplete(ctx context.Context, rebuild R) (bool, error)
}

// Batch collects writes for one round trip.
type Batch interface {
	PutPublicKey(version int64, digest [32]byte, entry *edgev1.PublicKeyEntry)
	PutReferralCode(version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry)
	PutLink(version int64, key string, entry *edgev1.LinkEntry)
	PutSigningKeys(version int64, keys *edgev1.SigningKeys)
	Flush(ctx context.Context) error
}
