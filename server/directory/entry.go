package directory

import (
	"iter"
	"time"

	edge "github.com/tributary-hq/tributary/storage/directory"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// putKeys adds public keys to a batch. It skips malformed keys, because collectors detect
// them by their checksum and do not look them up.
func (k *Keeper) putKeys(version int64, batch *edge.Batch, keys []account.PublicKeyTarget) {
	for _, key := range keys {
		if digest, ok := digestOf(key); ok {
			batch.PutPublicKey(version, digest, k.keyEntry(key))
		}
	}
}

// putTargets adds referral codes and their links to a batch. It deletes the codes and links
// of erased participants, because the erasure deletes them only once and may have done so
// before this write.
func putTargets(version int64, batch *edge.Batch, targets []participant.ReferralTarget) {
	for _, target := range targets {
		if target.Erased {
			batch.DeleteReferralCode(version, target.Scope, target.Code)
			continue
		}
		batch.PutReferralCode(version, target.Scope, target.Code, codeEntry(target))
	}
	for target := range eachLink(targets) {
		if target.Erased {
			batch.DeleteLink(version, target.Link.Key)
			continue
		}
		batch.PutLink(version, target.Link.Key, linkEntry(target))
	}
}

// digestOf returns the digest of a public key. Collectors look up the key by this digest.
func digestOf(key account.PublicKeyTarget) (digest [32]byte, ok bool) {
	parsed, ok := account.ParseKey(key.PublicText)
	if !ok {
		return digest, false
	}
	return parsed.Digest(), true
}

func (k *Keeper) keyEntry(key account.PublicKeyTarget) *edgev1.PublicKeyEntry {
	return &edgev1.PublicKeyEntry{
		WorkspaceId:    key.Workspace.UUID[:],
		Mode:           modes[key.Mode],
		Revoked:        !key.Active(k.cfg.Now()),
		ExpiresAtMs:    millis(key.ExpiresAt),
		AllowedOrigins: key.AllowedOrigins,
		EnforceOrigins: key.EnforceOrigins,
		RequireOrigin:  key.RequireOrigin,
	}
}

var modes = map[affiliate.Mode]edgev1.Mode{
	affiliate.ModeTest: edgev1.Mode_MODE_TEST,
	affiliate.ModeLive: edgev1.Mode_MODE_LIVE,
}

func millis(at *time.Time) int64 {
	if at == nil {
		return 0
	}
	return at.UnixMilli()
}

func codeEntry(target participant.ReferralTarget) *edgev1.ReferralCodeEntry {
	entry := &edgev1.ReferralCodeEntry{
		ProgramId:             target.Program.UUID[:],
		ParticipantId:         target.Participant.UUID[:],
		LinkId:                target.Link.ID.UUID[:],
		Active:                target.Active,
		AttributionWindowDays: int32(target.WindowDays), //nolint:gosec // at most 365
		AttributionModel:      string(target.Model),
	}
	if d := target.Discount; d != nil {
		entry.Discount = &edgev1.Discount{
			PromoCode: d.PromoCode, Type: string(d.Type), Value: d.Value, Currency: d.Currency, ExpiresAtMs: millis(d.ExpiresAt),
		}
	}
	return entry
}

// eachLink returns one target for each link. Several targets can have the same link: a
// participant can have several referral codes that use the participant's default link.
func eachLink(targets []participant.ReferralTarget) iter.Seq[participant.ReferralTarget] {
	return func(yield func(participant.ReferralTarget) bool) {
		seen := make(map[string]struct{}, len(targets))
		for _, target := range targets {
			if _, duplicate := seen[target.Link.Key]; duplicate {
				continue
			}
			seen[target.Link.Key] = struct{}{}
			if !yield(target) {
				return
			}
		}
	}
}

func linkEntry(target participant.ReferralTarget) *edgev1.LinkEntry {
	link := target.Link
	return &edgev1.LinkEntry{
		WorkspaceId:           target.Scope.Workspace.UUID[:],
		Mode:                  modes[target.Scope.Mode],
		ProgramId:             target.Program.UUID[:],
		ParticipantId:         target.Participant.UUID[:],
		LinkId:                link.ID.UUID[:],
		ReferralCode:          link.Code,
		TargetUrl:             link.TargetURL,
		Active:                target.Active && link.TargetURL != "",
		AttributionWindowDays: int32(target.WindowDays), //nolint:gosec // at most 365
		SubId:                 link.SubID,
		UtmSource:             link.UTM.Source,
		UtmMedium:             link.UTM.Medium,
		UtmCampaign:           link.UTM.Campaign,
		UtmTerm:               link.UTM.Term,
		UtmContent:            link.UTM.Content,
	}
}
