package affiliate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var allCommissionStatuses = []CommissionStatus{
	CommissionPending, CommissionApproved, CommissionRejected, CommissionPaid, CommissionRefunded,
}

// refusalOf says why a move may not be made.
func refusalOf(c Commission, m CommissionMove, now time.Time) *Error {
	_, refusal := CommissionTransition{Move: m, At: now}.Apply(c)
	return refusal
}

func TestRefusalOfEveryMoveInEveryStatus(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	running, over := now.Add(time.Millisecond), now
	for _, c := range []struct {
		status  CommissionStatus
		hold    *time.Time
		approve Reason
		reject  Reason
	}{
		{CommissionPending, nil, "", ""},
		{CommissionPending, &over, "", ""},
		{CommissionPending, &running, ReasonCommissionHoldActive, ""},
		{CommissionApproved, nil, ReasonCommissionNotPending, ""},
		{CommissionApproved, &running, ReasonCommissionNotPending, ""},
		{CommissionRejected, &running, ReasonCommissionNotPending, ReasonCommissionTerminal},
		{CommissionPaid, nil, ReasonCommissionNotPending, ReasonCommissionTerminal},
		{CommissionRefunded, nil, ReasonCommissionNotPending, ReasonCommissionTerminal},
	} {
		for _, flagged := range []bool{false, true} {
			commission := Commission{Status: c.status, HoldUntil: c.hold, NeedsReview: flagged}
			for move, want := range map[CommissionMove]Reason{MoveApprove: c.approve, MoveReject: c.reject} {
				refusal := refusalOf(commission, move, now)
				if (refusal == nil) != (want == "") || refusal != nil && refusal.Reason != want {
					t.Errorf("%s of %s with hold %v, flagged %v: %v, want %q", move, c.status, c.hold, flagged, refusal, want)
				}
				if refusal == nil {
					continue
				}
				key, value := "status", string(c.status)
				if want == ReasonCommissionHoldActive {
					key, value = "hold_until", "2026-03-01T12:00:00.001Z"
				}
				if refusal.Metadata["status"] != string(c.status) || refusal.Metadata[key] != value {
					t.Errorf("%s of %s: metadata %v, want %s = %s", move, c.status, refusal.Metadata, key, value)
				}
			}
		}
	}
}

func TestDueForApprovalNeedsEverything(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := now.Add(time.Millisecond)
	due := Commission{Status: CommissionPending, AutoApproveAt: &now, HoldUntil: &now, Dispute: DisputeNone}
	if !due.DueForApproval(now, ParticipantApproved, false) {
		t.Error("is due at the very end of its hold, and was not")
	}
	if due.DueForApproval(now.Add(-time.Millisecond), ParticipantApproved, false) {
		t.Error("is not due a millisecond before")
	}
	if due.DueForApproval(now, ParticipantApproved, true) {
		t.Error("an erased participant is frozen")
	}
	for _, standing := range []ParticipantStatus{ParticipantPending, ParticipantRejected, ParticipantSuspended} {
		if due.DueForApproval(now, standing, false) {
			t.Errorf("a %s participant earns nothing", standing)
		}
	}
	for name, spoil := range map[string]func(*Commission){
		"approved already":         func(c *Commission) { c.Status = CommissionApproved },
		"left to a person":         func(c *Commission) { c.AutoApproveAt = nil },
		"later":                    func(c *Commission) { c.AutoApproveAt = &later },
		"hold longer than the due": func(c *Commission) { c.HoldUntil = &later },
		"flagged":                  func(c *Commission) { c.NeedsReview = true },
		"disputed":                 func(c *Commission) { c.Dispute = DisputeOpen },
	} {
		c := due
		spoil(&c)
		if c.DueForApproval(now, ParticipantApproved, false) {
			t.Errorf("%s, and yet due", name)
		}
	}
	for _, settled := range []DisputeStatus{DisputeWon, DisputeLost} {
		c := due
		c.Dispute = settled
		if !c.DueForApproval(now, ParticipantApproved, false) {
			t.Errorf("a dispute that is %s speaks against nothing", settled)
		}
	}
}

// Random lives of a commission against a model that knows nothing but the
// table of DECISIONS.md section 1, written down a second time.
func TestCommissionLivesFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		hold := now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "hold hours")) * time.Hour)
		c := Commission{
			Status: CommissionPending, HoldUntil: &hold, AutoApproveAt: &hold, Dispute: DisputeNone,
			NeedsReview: rapid.Bool().Draw(t, "flagged"),
		}
		path := []CommissionStatus{c.Status}
		move := func(m CommissionMove) {
			if c.Status != CommissionPending && m != MoveReject {
				t.Fatalf("%s from %s", m, c.Status)
			}
			c.Status = commissionMoves[m].to
			if m == MoveApprove {
				c.NeedsReview = false
			}
			path = append(path, c.Status)
		}
		t.Repeat(map[string]func(*rapid.T){
			"approve": func(t *rapid.T) {
				legal := c.Status == CommissionPending && !now.Before(hold)
				if refusal := refusalOf(c, MoveApprove, now); (refusal == nil) != legal {
					t.Fatalf("approve of %s at %v with hold until %v: %v", c.Status, now, hold, refusal)
				}
				if legal {
					move(MoveApprove)
				}
			},
			"auto-approve": func(*rapid.T) {
				if c.DueForApproval(now, ParticipantApproved, false) {
					if now.Before(hold) || c.NeedsReview {
						t.Fatal("due during the hold, or flagged")
					}
					move(MoveAutoApprove)
				} else if c.Status == CommissionPending && !now.Before(hold) && !c.NeedsReview && c.Dispute != DisputeOpen {
					t.Fatal("the hold is over, nothing speaks against it, and it is not due")
				}
			},
			"reject": func(t *rapid.T) {
				legal := c.Status == CommissionPending || c.Status == CommissionApproved
				if refusal := refusalOf(c, MoveReject, now); (refusal == nil) != legal {
					t.Fatalf("reject of %s: %v", c.Status, refusal)
				}
				if legal {
					move(MoveReject)
				}
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
			},
			"dispute": func(t *rapid.T) {
				c.Dispute = rapid.SampledFrom([]DisputeStatus{DisputeOpen, DisputeWon}).Draw(t, "dispute")
			},
			"": func(t *rapid.T) {
				if len(path) > 3 {
					t.Fatalf("no life has more than two moves: %v", path)
				}
				if i := slices.Index(path, CommissionRejected); i >= 0 && i != len(path)-1 {
					t.Fatalf("moved on from the end: %v", path)
				}
			},
		})
	})
}

func TestEveryMoveHasItsLineInTheTable(t *testing.T) {
	for _, m := range []CommissionMove{MoveApprove, MoveAutoApprove, MoveReject} {
		if len(m.From()) == 0 || !slices.Contains(allCommissionStatuses, commissionMoves[m].to) || commissionMoves[m].event == "" {
			t.Errorf("%s: from %v to %q tells %q", m, m.From(), commissionMoves[m].to, commissionMoves[m].event)
		}
		if slices.Contains(m.From(), commissionMoves[m].to) {
			t.Errorf("%s leads nowhere", m)
		}
	}
	from := MoveReject.From()
	from[0] = CommissionPaid
	if MoveReject.From()[0] == CommissionPaid {
		t.Error("the table can be changed from outside")
	}
}

func TestCommissionEventHasThePublicKeysInTheirOrder(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := func(n byte) (u CommissionID) { u.UUID[15] = n; return u }
	hold := now.Add(-time.Hour)
	after := Commission{
		ID: id(1), Scope: Scope{Workspace: WorkspaceID(id(2)), Mode: ModeTest}, Status: CommissionApproved,
		AmountCents: 450, OriginalAmountCents: 500, Currency: "EUR", Conversion: ConversionID(id(3)),
		Participant: ParticipantID(id(4)), HoldUntil: &hold, Version: 2,
	}
	before := after
	before.Status, before.NeedsReview, before.ReviewReasons = CommissionPending, true, []string{"fx_rate_missing"}

	event := CommissionEvent(EventCommissionApproved, now, &before, after)
	body, err := event.Body()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"` + event.WireID() + `","type":"commission.approved","api_version":"v1",` +
		`"timestamp":"2026-03-01T12:00:00.000Z","mode":"test","workspace_id":"00000000-0000-0000-0000-000000000002",` +
		`"data":{"object":{"id":"00000000-0000-0000-0000-000000000001","status":"approved","amount_cents":450,` +
		`"original_amount_cents":500,"currency":"EUR","conversion_id":"00000000-0000-0000-0000-000000000003",` +
		`"participant_id":"00000000-0000-0000-0000-000000000004","hold_until":"2026-03-01T11:00:00.000Z",` +
		`"needs_review":false,"review_reasons":[],"version":2},` +
		`"previous_attributes":{"status":"pending","needs_review":true,"review_reasons":["fx_rate_missing"]}}}`
	if string(body) != want {
		t.Errorf("body\n%s\nwant\n%s", body, want)
	}

	after.HoldUntil = nil
	if event := CommissionEvent(EventCommissionCreated, now, nil, after); event.Previous != nil {
		t.Errorf("something new has no previous attributes, not even %v", event.Previous)
	}
	if event := CommissionEvent(EventCommissionApproved, now, &after, after); event.Previous != nil {
		t.Errorf("nothing changed, and %v is told", event.Previous)
	}
}
