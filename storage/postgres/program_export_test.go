package postgres

// The statements whose plans are under test.
const (
	ListProgramsSQL           = listPrograms
	CountProgramsSQL          = countPrograms
	ListParticipantsSQL       = listParticipants
	ListParticipantsStatusSQL = listParticipantsInStatus
	CountParticipantsSQL      = countParticipants
	CountInStatusSQL          = countParticipantsInStatus
	PublicKeysAfterSQL        = publicKeysAfter
	ProgramTargetsSQL         = programReferralTargets
	TargetsAfterSQL           = referralTargetsAfter
)
