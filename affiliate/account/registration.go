package account

// Registration says who can create an account of one kind.
type Registration string

// With OpenRegistration, everybody can register. With InviteRegistration, a person needs
// the token of an invitation. With ClosedRegistration, no person can register. A person can
// then only accept an invitation to an existing workspace.
const (
	OpenRegistration   Registration = "open"
	InviteRegistration Registration = "invite"
	ClosedRegistration Registration = "closed"
)
