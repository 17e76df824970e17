package directory

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Source is the truth. The methods with a limit read on from what they are
// given, in an order of their own; fewer than the limit are the last.
type Source interface {
	// DirectoryVersion takes the number of a write, before its state is read.
	DirectoryVersion(ctx context.Context) (int64, error)
	// WorkspacePublicKeys reads a workspace's public keys, ended ones too.
	WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.APIKey, error)
	// PublicKeysAfter reads on through everybody's, from the zero key.
	PublicKeysAfter(ctx context.Context, after affiliate.APIKey, limit int) ([]affiliate.APIKey, error)
	// ParticipantReferralTargets reads the codes of one participant.
	ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) ([]affiliate.ReferralTarget, error)
	// ProgramReferralTargets reads on through a programme's codes, from the empty
	// one.
	ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, after string, limit int) ([]affiliate.ReferralTarget, error)
	// ReferralTargetsAfter reads on through everybody's codes, from the zero
	// target.
	ReferralTargetsAfter(ctx context.Context, after affiliate.ReferralTarget, limit int) ([]affiliate.ReferralTarget, error)
}

// Sink is the directory. A write whose version is not above the stored one
// changes nothing. R names an attempt at filling the whole of it, B collects
// writes: both are the sink's own.
type Sink[R any, B Batch] interface {
	// PutPublicKey and PutReferralCode write one entry and tell the edge of it.
	PutPublicKey(ctx context.Context, version int64, digest [32]byte, entry *edgev1.PublicKeyEntry) error
	PutReferralCode(ctx context.Context, version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry) error
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
	PutSigningKeys(version int64, keys *edgev1.SigningKeys)
	Flush(ctx context.Context) error
}
