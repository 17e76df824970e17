package commission

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// reader converts commissions to messages that contain only data which the caller may
// read.
type reader struct {
	// masked is true if the messages must contain masked e-mail addresses.
	masked bool
}

func readerOf(ctx context.Context) reader {
	return reader{masked: server.PrincipalFrom(ctx).Role == affiliate.RoleViewer}
}

// item converts a commission to a list item, as server.CommissionItem does.
func (r reader) item(c commission.Item, now time.Time) *affiliatev1.CommissionListItem {
	item := server.CommissionItem(c, now)
	if r.masked {
		item.PartnerEmail = affiliate.MaskEmail(item.PartnerEmail)
	}
	return item
}

// detail converts a commission to the message with all fields. The field HoldActive says
// whether the hold period has not ended at the given time.
func (r reader) detail(c commission.Detail, now time.Time) *affiliatev1.Commission {
	full := &affiliatev1.Commission{
		OverrideReason: c.OverrideReason,
		OverrideBy:     server.OptionalID(c.OverrideBy),
		OverrideByName: c.OverrideByName,
		RuleSnapshot:   ruleSnapshot(c.Rule),
		Attribution: &affiliatev1.CommissionAttribution{
			DecisionId:  c.Decision.String(),
			Method:      c.Method,
			ReasonCode:  c.ReasonCode,
			Explanation: c.Explanation,
			ClickedAt:   server.OptionalTimestamp(c.ClickedAt),
			ExpiresAt:   server.OptionalTimestamp(c.ExpiresAt),
		},
		History: make([]*affiliatev1.CommissionHistoryEntry, len(c.History)),
	}
	for i, entry := range c.History {
		full.History[i] = &affiliatev1.CommissionHistoryEntry{
			At:        server.Timestamp(entry.At),
			Actor:     entry.Actor,
			ActorName: entry.Name,
			From:      server.OptionalEnum[affiliatev1.CommissionStatus](entry.From),
			To:        server.EnumValue[affiliatev1.CommissionStatus](entry.To),
			Reason:    entry.Reason,
		}
	}
	server.CopyShared(full.ProtoReflect(), r.item(c.Item, now).ProtoReflect())
	return full
}

func ruleSnapshot(rule attribution.RuleSnapshot) *affiliatev1.RuleSnapshot {
	out := &affiliatev1.RuleSnapshot{
		Version:            int32(rule.Version), // the number of changes that users have made, which is small
		Rules:              server.Rules(rule.Rules),
		CommissionOverride: server.Rate(rule.Override),
		Source:             string(rule.Source),
	}
	if group := rule.Group; group != nil {
		out.GroupId, out.GroupName, out.GroupRate = server.OptionalID(&group.ID), &group.Name, server.Rate(&group.Rate)
	}
	return out
}

// Check implements server.Checker. It validates dates, time zones and enum values.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if list, ok := req.(filterRequest); ok {
		_, found = affiliate.ParsePeriod(list.GetDateFrom(), list.GetDateTo(), list.GetTimezone())
		server.CheckEnum("status", list.GetStatus(), &found)
	}
	if list, ok := req.(orderRequest); ok {
		server.CheckEnum("sort_order", list.GetSortOrder(), &found)
	}
	if rejection, ok := req.(interface {
		GetCode() affiliatev1.RejectionCode
	}); ok {
		server.CheckEnum("code", rejection.GetCode(), &found)
	}
	return found
}
