package e2e_test

import "testing"

// TestWalk is the main job, point by point, on one running system: one click
// becomes an approved commission. It runs before the tests that run side by
// side, because two of its points say "within a second".
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
		// These move the clock, which ends every session that was opened before.
		{"6 attribution windows", walkWindows},
		{"7 automatic approval", walkAutomaticApproval},
		{"8 logs", walkLogs},
	} {
		t.Run(point.name, func(t *testing.T) { point.walk(t, sys) })
	}
}
