package directory

// DirectoryKeysSQL and the variables below are statements whose query plans the tests check.
const DirectoryKeysSQL = publicKeysAfter

var (
	DirectoryTargetsSQL            = referralTargetsAfter
	DirectoryProgramTargetsSQL     = programReferralTargets
	DirectoryParticipantTargetsSQL = participantReferralTargets
)
