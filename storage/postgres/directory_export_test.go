package postgres

// The statements of the edge directory whose plans are under test.
const (
	DirectoryKeysSQL               = publicKeysAfter
	DirectoryTargetsSQL            = referralTargetsAfter
	DirectoryProgramTargetsSQL     = programReferralTargets
	DirectoryParticipantTargetsSQL = participantReferralTargets
)
