package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Source is the database, which contains the current state. A method with a limit returns
// one page of entries. The page starts after the entry to which the cursor refers. If the
// cursor has its zero value, the page starts with the first entry. If a page has fewer
// entries than the limit, it is the last page.
type Source interface {
	// DirectoryVersion returns a new version, which is higher than all earlier versions.
	// A writer must call it before it reads the state that it writes.
	DirectoryVersion(ctx context.Context) (int64, error)
	// WorkspacePublicKeys reads all public keys of a workspace, including expired and
	// revoked keys.
	WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]account.PublicKeyTarget, error)
	// PublicKeysAfter reads one page of the public keys of all workspaces. The cursor is
	// a key.
	PublicKeysAfter(ctx context.Context, cursor account.APIKey, limit int) ([]account.PublicKeyTarget, error)
	// ParticipantReferralTargets reads the referral codes of one participant, with their
	// links and discounts. In this and the following methods, a discount is a promo code
	// that can be used now.
	ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID, now time.Time) ([]participant.ReferralTarget, error)
	// ProgramReferralTargets reads one page of the referral codes of a programme. The
	// cursor is a referral code.
	ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, now time.Time, cursor string, limit int) ([]participant.ReferralTarget, error)
	// ReferralTargetsAfter reads one page of the referral codes of all workspaces. The
	// cursor is a target.
	ReferralTargetsAfter(ctx context.Context, cursor participant.ReferralTarget, now time.Time, limit int) ([]participant.ReferralTarget, error)
}

// Sink is the edge directory. A write replaces a stored entry if the version of the write
// is higher than the version of the entry. Otherwise the write is ignored. The type R
// identifies a rebuild, and the type B is a batch of writes.
type Sink[R any, B Batch] interface {
	// Batch returns an empty batch for many entries. When the batch is written,
	// collectors drop all entries from their caches.
	Batch() B
	// Changes returns an empty batch for a few entries. When the batch is written,
	// collectors drop these entries from their caches and keep the others.
	Changes() B
	// Complete reports whether the directory is complete, which means that its marker
	// exists.
	Complete(ctx context.Context) (bool, error)
	// BeginRebuild starts a rebuild. It replaces a rebuild that is running.
	BeginRebuild(ctx context.Context) (R, error)
	// MarkComplete ends a rebuild and sets the marker. It returns false if the directory
	// has lost data since BeginRebuild, or if another rebuild has begun.
	MarkComplete(ctx context.Context, rebuild R) (bool, error)
}

// Batch collects writes. Flush sends all collected writes to the edge directory. A deletion
// writes that a code or a link does not exist. Soon after, nothing is left of it in the
// directory.
type Batch interface {
	PutPublicKey(version int64, digest [32]byte, entry *edgev1.PublicKeyEntry)
	PutReferralCode(version int64, scope affiliate.Scope, code string, entry *edgev1.ReferralCodeEntry)
	DeleteReferralCode(version int64, scope affiliate.Scope, code string)
	PutLink(version int64, key string, entry *edgev1.LinkEntry)
	DeleteLink(version int64, key string)
	PutSigningKeys(version int64, keys *edgev1.SigningKeys)
	PutHashKeys(version int64, keys *edgev1.HashKeys)
	Flush(ctx context.Context) error
}
