package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Source reads the truth. A method with a limit returns the entries that follow its
// starting point, in an order of its own. Fewer entries than the limit are the last.
type Source interface {
	// DirectoryVersion takes the version of a write, before its state is read.
	DirectoryVersion(ctx context.Context) (int64, error)
	// WorkspacePublicKeys reads all public keys of a workspace, including ended ones.
	WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.PublicKeyTarget, error)
	// PublicKeysAfter reads the public keys of all workspaces, from the zero key.
	PublicKeysAfter(ctx context.Context, after affiliate.APIKey, limit int) ([]affiliate.PublicKeyTarget, error)
	// ParticipantReferralTargets reads the codes of one participant. Here and below,
	// at is the time at which a promo code has to be usable.
	ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID, at time.Time) ([]affiliate.ReferralTarget, error)
	// ProgramReferralTargets reads the codes of a programme, from the empty code.
	ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, at time.Time, after string, limit int) ([]affiliate.ReferralTarget, error)
	// ReferralTargetsAfter reads the codes of all workspaces, from the zero target.
	ReferralTargetsAfter(ctx context.Context, after affiliate.ReferralTarget, at time.Time, limit int) ([]affiliate.ReferralTarget, error)
}

// Sink is the directory. A write changes nothing if the stored version is at least as
// new. R identifies an attempt to fill the directory and B collects writes; both are
// types of the sink.
type Sink[R any, B Batch] interface {
	// Batch starts an empty batch of many entries. Collectors drop their caches.
	Batch() B
	// Changes starts an empty batch of a few entries. Collectors drop these only.
	Changes() B
	// Complete reports whether the marker is there.
	Complete(ctx context.Context) (bool, error)
	// BeginRebuild and MarkComplete enclose a rebuild. MarkComplete returns false if
	// data was lost in between or another rebuild has begun.
	BeginRebuild(ctx context.Context) (R, error)
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
