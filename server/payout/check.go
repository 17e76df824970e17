package payout

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.PreviewPayoutsRequest:
		_, found = cutoffOf(req.Cutoff, s.currentTime())
	case *affiliatev1.CreatePayoutBatchRequest:
		_, found = cutoffOf(req.Cutoff, s.currentTime())
	case *affiliatev1.ListPayoutBatchesRequest:
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ListPayoutsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ListPartnerPayoutsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ExportPayoutBatchRequest:
		server.CheckEnum("format", req.GetFormat(), &found)
		if _, ok := affiliate.ParseCurrency(req.GetCurrency()); !ok && req.Currency != nil {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	case *affiliatev1.MarkPayoutPaidRequest:
		if at := req.GetPaidAt(); at != nil && at.CheckValid() != nil {
			found.Add("paid_at", affiliate.MustBeTimestamp)
		}
	}
	return found
}

// selectionOf returns the programmes and the cutoff in a request. Check has validated
// both. now is the time of the request.
func selectionOf(scope affiliate.Scope, req interface {
	GetProgramIds() []string
	GetCutoff() string
}, now time.Time,
) payout.Selection {
	cutoff := req.GetCutoff()
	selection := payout.Selection{Scope: scope, At: now}
	selection.Cutoff, _ = cutoffOf(&cutoff, now)
	for _, text := range req.GetProgramIds() {
		if id, ok := affiliate.ParseID[affiliate.ProgramID](text); ok && !slices.Contains(selection.Programs, id) {
			selection.Programs = append(selection.Programs, id)
		}
	}
	return selection
}

// cutoffOf parses a cutoff, which is a date or a time. For a date, the result is the last
// millisecond of that day. For a time, it is that time. If the cutoff is empty or later
// than now, the result is now.
func cutoffOf(text *string, now time.Time) (time.Time, affiliate.Violations) {
	if text == nil || *text == "" {
		return now, nil
	}
	period, wrong := affiliate.ParsePeriod("", *text, "")
	if wrong != nil {
		var found affiliate.Violations
		found.Add("cutoff", wrong[0].Message)
		return now, found
	}
	if last := period.Before.Add(-time.Millisecond); last.Before(now) {
		return last, nil
	}
	return now, nil
}
