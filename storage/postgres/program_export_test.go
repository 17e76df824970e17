package postgres

// The statements whose plans are under test.
const (
	ListProgramsSQL    = listPrograms
	CountProgramsSQL   = countPrograms
	PublicKeysAfterSQL = publicKeysAfter
	ProgramTargetsSQL  = programReferralTargets
	TargetsAfterSQL    = referralTargetsAfter
)
