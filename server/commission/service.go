// Package commission serves commissions to merchants: lists, statistics, CSV exports and
// single commissions. Merchants approve and reject commissions, one by one or in bulk. A
// job approves commissions automatically when their hold period has ended. The table of
// allowed status transitions is in package affiliate/commission.
//
// The package guarantees that concurrent transitions of one commission run one after the
// other. A transition, its entry in the commission's history, its event and its audit
// record are stored in one transaction. A page and its total come from the same snapshot
// of the database. Callers who can read only masked e-mail addresses cannot search for
// e-mail addresses.
//
// Automatic approval may run some seconds after the end of the hold period. A list and
// its statistics come from two requests, so they can differ.
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
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// Service implements affiliate.v1.CommissionService.
type Service struct {
	affiliatev1.UnimplementedCommissionServiceServer

	db  *postgres.DB
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// GetCommission reads one commission.
func (s *Service) GetCommission(ctx context.Context, req *affiliatev1.GetCommissionRequest) (*affiliatev1.Commission, error) {
	program, id, err := s.pathIDs(ctx, req)
	if err != nil {
		return nil, err
	}
	detail, err := commissions.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id)
	if err != nil {
		return nil, err
	}
	return readerOf(ctx).detail(detail, s.currentTime()), nil
}

// commissionRequest is a request about one commission. The path of the request may have no programme.
type commissionRequest interface {
	GetProgramId() string
	GetCommissionId() string
}

// pathIDs returns the ids of the programme and the commission in the request's path. If the
// path has no programme, pathIDs looks it up. Errors: NOT_FOUND if the path has no programme
// and the commission does not exist.
func (s *Service) pathIDs(ctx context.Context, req commissionRequest) (program affiliate.ProgramID, id affiliate.CommissionID, err error) {
	program, id = server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.CommissionID](req.GetCommissionId())
	if req.GetProgramId() == "" {
		program, err = commissions.ProgramOfCommission(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id)
	}
	return program, id, err
}

// reader converts commissions to messages that contain only the data that the caller may read.
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

// detail converts a commission to the message with all fields. The field HoldActive is true
// if the hold period has not ended at the given time.
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
