package directory

// Statements of the edge directory whose query plans the tests check.
const (
	DirectoryKeysSQL               = publicKeysAfter
	DirectoryTargetsSQL            = referralTargetsAfter
	DirectoryProgramTargetsSQL     = programReferralTargets
	DirectoryParticipantTargetsSQL = participantReferralTargets
)
