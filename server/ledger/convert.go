package ledger

import (
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func toProto(e ledger.Entry) *affiliatev1.LedgerEntry {
	return &affiliatev1.LedgerEntry{
		Id:            e.ID.String(),
		ProgramId:     e.Program.String(),
		ParticipantId: e.Participant.String(),
		Mode:          server.EnumValue[affiliatev1.Mode](e.Mode),
		Type:          server.EnumValue[affiliatev1.LedgerEntryType](e.Type),
		AmountCents:   e.AmountCents,
		Currency:      e.Currency,
		CommissionId:  server.OptionalID(e.Commission),
		PayoutId:      server.OptionalID(e.Payout),
		Reason:        e.Reason,
		CreatedBy:     e.CreatedBy,
		CreatedAt:     server.Timestamp(e.CreatedAt),
		OccurredAt:    server.OptionalTimestamp(e.OccurredAt),
	}
}

// toPartnerProto converts an entry to the message for the partner. The message does not
// contain the member of the merchant who created the entry.
func toPartnerProto(e ledger.Item) *affiliatev1.PartnerLedgerEntry {
	out := &affiliatev1.PartnerLedgerEntry{ProgramName: e.ProgramName}
	server.CopyShared(out.ProtoReflect(), toProto(e.Entry).ProtoReflect())
	return out
}

func balancesToProto(balances []ledger.Balance) []*affiliatev1.LedgerBalance {
	out := make([]*affiliatev1.LedgerBalance, len(balances))
	for i, b := range balances {
		out[i] = &affiliatev1.LedgerBalance{Currency: b.Currency, BalanceCents: b.BalanceCents}
	}
	return out
}
