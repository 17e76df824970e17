package e2e_test

import "testing"

// TestMainUseCase tests the main use case step by step on one system, from the first
// account to an approved commission. It does not run in parallel with other tests,
// because in two steps a change must reach the collector within a second.
func TestMainUseCase(t *testing.T) {
	sys := start(t, setup{})
	for _, step := range []struct {
		name string
		test func(*testing.T, *system)
	}{
		{"1 accounts", testAccounts},
		{"1 keys", testKeys},
		{"2 programmes", testPrograms},
		{"2 changing a programme", testProgramChanges},
		{"3 participants", testParticipants},
		{"4 clicks", testClicks},
		{"5 ingestion", testIngestion},
		{"6 conversions", testConversions},
		{"6 late clicks and races", testRaces},
		{"7 commissions", testCommissions},
		{"7 commission lists", testCommissionLists},
		{"8 operations", testOperations},
		{"8 gRPC", testGRPC},
		// These steps are last, because they advance the clock so far that earlier
		// sessions expire.
		{"6 attribution windows", testWindows},
		{"7 automatic approval", testAutomaticApproval},
		{"8 logs", testLogs},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(t, sys) })
	}
}
