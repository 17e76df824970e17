package participant

import (
	"encoding/json"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Patch changes the fields of a participant that a merchant edits.
type Patch struct {
	Note         affiliate.Change[string]
	Tags         affiliate.Change[[]string]
	Group        affiliate.Change[affiliate.GroupID]
	Override     affiliate.Change[program.Rate]
	ReferralCode affiliate.Change[string] // case-folded; clearing it has no effect, because every participant has a code
	ExternalID   affiliate.Change[string]
}

// Patch returns p with the changes of patch. It does not check that the group belongs
// to the programme or that the code is free. The database checks both.
func (p Participant) Patch(patch Patch) Participant {
	p.Note = patch.Note.ApplyOptional(p.Note)
	if p.Note != nil && *p.Note == "" {
		p.Note = nil
	}
	p.Tags = patch.Tags.Apply(p.Tags, []string{})
	p.Group = patch.Group.ApplyOptional(p.Group)
	var override program.Rate
	if rate := patch.Override.ApplyOptional(p.Override()); rate != nil {
		override = *rate
	}
	p.OverrideRateBps, p.OverrideFlatAmountCents = override.Bps, override.FlatCents
	p.ReferralCode = patch.ReferralCode.Apply(p.ReferralCode, p.ReferralCode)
	p.ExternalID = patch.ExternalID.ApplyOptional(p.ExternalID)
	return p
}

// Details holds the fields that a patch changes.
type Details struct {
	ReferralCode string             `json:"referral_code"`
	Group        *affiliate.GroupID `json:"group_id"`
	Override     *program.Rate      `json:"commission_override"`
	Tags         []string           `json:"tags"`
	Note         *string            `json:"note"`
	ExternalID   *string            `json:"external_id"`
}

// Details returns the fields of p that a patch changes.
func (p Participant) Details() Details {
	return Details{
		ReferralCode: p.ReferralCode, Group: p.Group, Override: p.Override(), Tags: p.Tags, Note: p.Note, ExternalID: p.ExternalID,
	}
}

// redactedText is what the audit log shows instead of a note or an external id.
const redactedText = "(changed)"

// ChangeTo returns the fields that differ between p and after, with their old and new
// values, for the audit log. It replaces the text of the note, because merchants write
// about people in notes, and the external id, because an erasure cannot change the log.
func (p Participant) ChangeTo(after Participant) (oldValues, newValues map[string]json.RawMessage, err error) {
	if oldValues, newValues, err = affiliate.ChangedFields(p.Details(), after.Details()); err != nil {
		return nil, nil, err
	}
	for _, field := range []string{"note", "external_id"} {
		if err := affiliate.RedactChange(oldValues, newValues, field, func(string) string { return redactedText }); err != nil {
			return nil, nil, err
		}
	}
	return oldValues, newValues, nil
}
