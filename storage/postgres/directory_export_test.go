package postgres

// Statements of the edge directory whose plans are checked.
const (
	DirectoryKeysSQL               = publicKeysAfter
	DirectoryTargetsSQL            = referralTargetsAfter
	DirectoryProgramTargetsSQL     = programReferralTargets
	DirectoryParticipantTargetsSQL = participantReferralTargets
)
