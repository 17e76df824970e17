package affiliate

// DeadLetterSearch selects the dead letters (records of clicks that could not be stored) of a
// workspace or of one of its participants.
type DeadLetterSearch struct {
	Workspace WorkspaceID
	// PublicKeys are the public keys of the workspace. A record contains a public key if the
	// collector could not look up the key.
	PublicKeys []string
	// Mode is the mode of the records. If it is empty, the search selects both modes.
	Mode Mode
	// Participant is nil if the search selects all records of the workspace.
	Participant *ParticipantID
	// Texts contains the codes of the participant, and other texts about the participant, such as names.
	Texts []string
}

// StreamPosition is the id of an entry of a Redis stream. The zero value is the position before
// the first entry.
type StreamPosition struct {
	Time     uint64 // Unix milliseconds
	Sequence uint64 // orders the entries of a millisecond
}

// DeadLetterPage is a page of the stream of dead letters, from which an erasure deletes the
// records of its subject.
type DeadLetterPage struct {
	Search DeadLetterSearch
	After  StreamPosition
	Step   int // the step of the erasure that reads the page
	// Last is the position of the last entry of the page, and More is true if there can be
	// more entries. They are set after the page has been processed.
	Last StreamPosition
	More bool
}
