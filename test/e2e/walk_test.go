package e2e_test

import "testing"

// TestWalk tests the main use case step by step on one running system: a click leads to
// an approved commission. It does not run in parallel with other tests, because two of
// its steps must happen within a second.
func TestWalk(t *testing.T) {
	sys := start(t, setup{})
	for _, point := range []struct {
		name string
		walk func(*testing.T, *system)
	}{
		{"1 accounts", walkAccounts},
		{"1 keys", walkKeys},
		{"2 programmes", walkPrograms},
		{"2 changing a programme", walkProgramChanges},
		{"3 participants", walkParticipants},
		{"4 clicks", walkClicks},
		{"5 ingestion", walkIngestion},
		{"6 conversions", walkConversions},
		{"6 late clicks and races", walkRaces},
		{"7 commissions", walkCommissions},
		{"7 commission lists", walkCommissionLists},
		{"8 operations", walkOperations},
		{"8 gRPC", walkGRPC},
		// These steps advance the clock, so sessions that were opened earlier expire.
		{"6 attribution windows", walkWindows},
		{"7 automatic approval", walkAutomaticApproval},
		{"8 logs", walkLogs},
	} {
		t.Run(point.name, func(t *testing.T) { point.walk(t, sys) })
	}
}
