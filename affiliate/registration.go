package affiliate

// Registration says who can create an account of one kind (DECISIONS.md section 18).
type Registration string

// With OpenRegistration, everybody can register. With InviteRegistration, a person needs
// the token of an invitation. With ClosedRegistration, nobody can register; only members of
// existing workspaces can still be invited.
const (
	OpenRegistration   Registration = "open"
	InviteRegistration Registration = "invite"
	ClosedRegistration Registration = "closed"
)
