package server

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// WorkspaceForRole converts a workspace to its message. The message contains only the
// fields that a member with the role may read.
func WorkspaceForRole(w account.Workspace, role affiliate.Role) *affiliatev1.Workspace {
	w = w.ForRole(role)
	return &affiliatev1.Workspace{
		Id:               w.ID.String(),
		Name:             w.Name,
		Currency:         w.Currency,
		Timezone:         w.Timezone,
		AllowedOrigins:   w.AllowedOrigins,
		OriginPolicy:     EnumValue[affiliatev1.OriginPolicy](w.OriginPolicy),
		TestMailRedirect: w.TestMailRedirect,
		PayoutApproval:   &affiliatev1.PayoutApproval{SecondPersonAboveCents: w.SecondPersonAboveCents},
		BooksClosedUntil: OptionalTimestamp(w.BooksClosedUntil),
		CreatedAt:        Timestamp(w.CreatedAt),
		UpdatedAt:        Timestamp(w.UpdatedAt),

		RequireSecondFactor: w.RequireSecondFactor,
		RetainPayeeYears:    int32(w.RetainPayeeYears), //nolint:gosec // at most 30
	}
}
