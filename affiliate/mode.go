package affiliate

import (
	"bytes"
	"cmp"
)

// Mode is one of the two fully isolated halves of every workspace (SPEC.md
// section 1). A programme fixes the mode of all that it holds.
type Mode string

// The two modes. Their words are what the database and the API use.
const (
	ModeTest Mode = "test"
	ModeLive Mode = "live"
)

// Valid reports whether m is one of the two modes.
func (m Mode) Valid() bool { return m == ModeTest || m == ModeLive }

// Other is the mode that m must never see.
func (m Mode) Other() Mode {
	if m == ModeTest {
		return ModeLive
	}
	return ModeTest
}

// Scope is the part of the data that a call may touch. Every statement on a
// workspace's rows names both.
type Scope struct {
	Workspace WorkspaceID
	Mode      Mode
}

// Compare orders scopes, for whoever locks rows of several.
func (s Scope) Compare(other Scope) int {
	return cmp.Or(bytes.Compare(s.Workspace.UUID[:], other.Workspace.UUID[:]), cmp.Compare(s.Mode, other.Mode))
}
