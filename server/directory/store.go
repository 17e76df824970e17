package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Source is the truth. The methods with a limit read on from what they are
// given, in an order of their own; fewer than the limit are the last.
type Source interface {
	// DirectoryVersion takes the number of a write, before its state is read.
	DirectoryVersion(ctx context.Context) (int64, error)
	// WorkspacePublicKeys reads a workspace's public keys, ended ones too.
	WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.PublicKeyTarget, error)
	// PublicKeysAfter reads on through everybody's, from the zero key.
	PublicKeysAfter(ctx context.Context, after affiliate.APIKey, limit int) ([]affiliate.PublicKeyTarget, error)
	// ParticipantReferralTargets reads the codes of one participant. As for the
	// others, at is when its promo codes have to be usable.
	ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID, at time.Time) ([]affiliate.ReferralTarget, error)
	// ProgramReferralTargets reads on through a programme's codes, from the empty
	// one.
	ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, at time.Time, after string, limit int) ([]affiliate.ReferralTarget, error)
	// ReferralTargetsAfter reads on through everybody's codes, from the zero
	// target.
	ReferralTargetsAfter(ctx context.Context, after affiliate.ReferralTarget, at time.Time, limit int) ([]affiliate.ReferralTarget, error)
}

// Sink is the directory. A write whose version is not above the stored one
// changes nothing. R names an attempt at filling the whole of it, B collects
// writes: both are the sink's own.
type Sink[R any, B Batch] interface {
	// PutPublicKey, PutReferralCode and PutLink write one entry and tell the edge
	// of it.
	PutPublicKey(ctx context.Context, version int64, digest [32]byte, entry *edgev1.PublicKeyEntry) error
	PutReferralCode(ctx context.Context, version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry) error
	PutLink(ctx context.Context, version int64, key string, entry *edgev1.LinkEntry) error
	// Batch starts an empty batch.
	Batch() B
	// Complete reports whether the marker is there.
	Complete(ctx context.Context) (bool, error)
	// BeginRebuild and MarkComplete enclose a rebuild. MarkComplete is false when
	// something was lost in between, or another rebuild has begun.
	BeginRebuild(ctx context.Context) (R, error)
	MarkComplete(ctx context.Context, rebuild R) (bool, error)
}

// Batch collects many writes for one round trip.
type Batch interface {
	PutPublicKey(version int64, digest [32]byte, entry *edgev1.PublicKeyEntry)
	PutReferralCode(version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry)
	PutLink(version int64, key string, entry *edgev1.LinkEntry)
	PutSigningKeys(version int64, keys *edgev1.SigningKeys)
	Flush(ctx context.Context) error
}
