// Package workspace serves the settings, members, invitations, API keys and audit log of
// a workspace.
//
// The package guarantees that a secret key and the token of an invitation are returned
// once and stored only as a digest. The token of an invitation is also mailed, and stored
// encrypted until the mail has been sent. Each mode has at most ten valid secret keys, and each
// workspace has at least one owner, even if requests run in parallel. A change of
// members, invitations or keys locks the workspace and then reads the caller's role
// again. The call is therefore rejected if the caller has lost the role while the call
// waited for the lock. The roles to which a member can invite other users depend on the
// member's own role. If the member's role changes, the service ends the member's
// open invitations for which the new role is not sufficient. An export of the audit log
// reads one snapshot of the database, and its memory use does not depend on the size of
// the log.
//
// The package does not guarantee that collectors know a new public key or new allowed
// origins when the response is sent. Collectors read the edge directory, and the core
// waits at most 100 ms for the write to this directory. If the write fails, a job writes
// the change later.
package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Service implements affiliate.v1.WorkspaceService.
type Service struct {
	affiliatev1.UnimplementedWorkspaceServiceServer
	db          *postgres.DB
	seal        server.InviteSealer
	invitations server.Invitations
	now         func() time.Time
}

// New returns a Service. seal encrypts the tokens of mails, invitations limits the mailed
// invitations, and now is the clock.
func New(db *postgres.DB, seal server.InviteSealer, invitations server.Invitations, now func() time.Time) *Service {
	return &Service{db: db, seal: seal, invitations: invitations, now: now}
}

func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) } // the precision of the API

// GetWorkspace returns the settings of the workspace.
func (s *Service) GetWorkspace(ctx context.Context, _ *affiliatev1.GetWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller := server.PrincipalFrom(ctx)
	w, err := accounts.Workspace(ctx, s.db, caller.Workspace)
	if err != nil {
		return nil, err
	}
	return server.WorkspaceForRole(w, caller.Role), nil
}

// UpdateWorkspace changes the settings that the update mask names. If the settings
// already have the new values, it stores nothing. Errors: FORBIDDEN if a service token
// changes the payout approval, because the setting controls what service tokens may do.
func (s *Service) UpdateWorkspace(ctx context.Context, req *affiliatev1.UpdateWorkspaceRequest) (*affiliatev1.Workspace, error) {
	caller, at, patch := server.PrincipalFrom(ctx), s.currentTime(), patchOf(req)
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.Workspace, error) {
		before, err := accounts.LockSettings(ctx, tx, caller.Workspace)
		if err != nil {
			return nil, err
		}
		after, err := before.Patch(patch)
		if err != nil {
			return nil, err
		}
		if text := booksClosedUntilOf(req); text != "" {
			// Until the transaction ends, no other transaction can add to the ledger.
			if err := postgres.LockBooks(ctx, tx, caller.Workspace); err != nil {
				return nil, err
			}
			if after, err = after.CloseBooks(text, at); err != nil {
				return nil, err
			}
		}
		if err := checkSecondFactor(ctx, tx, caller, patch, after.RequireSecondFactor && !before.RequireSecondFactor); err != nil {
			return nil, err
		}
		if redirect := after.TestMailRedirect; redirect != nil && (before.TestMailRedirect == nil || *redirect != *before.TestMailRedirect) {
			verified, err := accounts.HasVerifiedMember(ctx, tx, caller.Workspace, *redirect)
			if err != nil {
				return nil, err
			}
			if !verified {
				return nil, affiliate.Invalid("test_mail_redirect", "must be the verified address of a member")
			}
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return server.WorkspaceForRole(after, caller.Role), err
		}
		if _, changed := newValues["second_person_above_cents"]; changed {
			if caller.Service != nil {
				return nil, affiliate.Refuse(affiliate.ReasonForbidden)
			}
			if err := tx.Notify(ctx, after.PayoutApprovalNotification(caller.User, at)); err != nil {
				return nil, err
			}
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := accounts.UpdateWorkspace(ctx, tx, after); err != nil {
			return nil, err
		}
		if err := affiliate.RedactChange(oldValues, newValues, "test_mail_redirect", affiliate.MaskEmail); err != nil {
			return nil, err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "workspace.update", ResourceType: "workspace", ResourceID: caller.Workspace, Before: oldValues, After: newValues,
		}); err != nil {
			return nil, err
		}
		_, originsChanged := newValues["allowed_origins"]
		_, policyChanged := newValues["origin_policy"]
		if !originsChanged && !policyChanged {
			return server.WorkspaceForRole(after, caller.Role), nil
		}
		// The edge directory contains these two settings in the entry of each public key.
		return server.WorkspaceForRole(after, caller.Role), tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: caller.Workspace})
	})
}

// checkSecondFactor checks whether the caller may change the setting that requires second factors.
// A service token cannot change the setting. A member who enables it must have a second factor, so
// that at least one member can still make changes. Errors: FORBIDDEN, SECOND_FACTOR_SETUP_REQUIRED.
func checkSecondFactor(ctx context.Context, tx *postgres.Tx, caller server.Principal, patch account.WorkspacePatch, enables bool) error {
	if caller.Service != nil && patch.RequireSecondFactor.Given {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	if !enables {
		return nil
	}
	// The lock makes the removal of the second factor wait.
	if err := accounts.LockUserByID(ctx, tx, caller.User); err != nil {
		return err
	}
	account, err := accounts.Account(ctx, tx, caller.User)
	if err == nil && !account.SecondFactor {
		err = affiliate.Refuse(affiliate.ReasonSecondFactorSetupRequired)
	}
	return err
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.UpdateWorkspaceRequest:
		server.CheckMask(req, &found, "name", "currency", "timezone", "books_closed_until")
		server.CheckName("name", req.GetName(), &found)
		checkSettings(req, &found)
	case *affiliatev1.CreateInviteRequest:
		checkAddress("email", req.GetEmail(), &found)
	case *affiliatev1.CreateApiKeyRequest:
		if req.GetExpiresAt() != nil && !req.GetExpiresAt().AsTime().After(s.now()) {
			found.Add("expires_at", affiliate.MustBeInFuture)
		}
	case auditRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	}
	return found
}

func checkSettings(req *affiliatev1.UpdateWorkspaceRequest, found *affiliate.Violations) {
	if currency := req.GetCurrency(); currency != "" {
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	}
	if timezone := req.GetTimezone(); timezone != "" && !account.ValidTimezone(timezone) {
		found.Add("timezone", affiliate.MustBeTimezone)
	}
	for i, origin := range req.GetAllowedOrigins() {
		if _, ok := affiliate.ParseOrigin(origin); !ok {
			found.Add(fmt.Sprintf("allowed_origins[%d]", i), "must be an origin, for example https://shop.example.com or https://*.example.com")
		}
	}
	if req.TestMailRedirect != nil {
		checkAddress("test_mail_redirect", req.GetTestMailRedirect(), found)
	}
}

func checkAddress(field, email string, found *affiliate.Violations) {
	if !account.BareAddress(email) {
		found.Add(field, affiliate.MustBeEmail)
	}
}

// patchOf returns the changes of the settings that the request's mask names. Check has
// validated the mask.
func patchOf(req *affiliatev1.UpdateWorkspaceRequest) account.WorkspacePatch {
	var patch account.WorkspacePatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "currency":
			currency, _ := affiliate.ParseCurrency(req.GetCurrency())
			patch.Currency = affiliate.Set(currency)
		case "timezone":
			patch.Timezone = affiliate.Set(req.GetTimezone())
		case "allowed_origins":
			patch.AllowedOrigins = affiliate.Set(normalOrigins(req.GetAllowedOrigins()))
		case "origin_policy":
			patch.OriginPolicy = affiliate.Clear[account.OriginPolicy]()
			if policy := server.EnumName(req.GetOriginPolicy()); policy != "" {
				patch.OriginPolicy = affiliate.Set(account.OriginPolicy(policy))
			}
		case "payout_approval", "payout_approval.second_person_above_cents":
			patch.SecondPersonAboveCents = affiliate.Clear[int64]()
			if approval := req.GetPayoutApproval(); approval != nil && approval.SecondPersonAboveCents != nil {
				patch.SecondPersonAboveCents = affiliate.Set(approval.GetSecondPersonAboveCents())
			}
		case "require_second_factor":
			patch.RequireSecondFactor = affiliate.Set(req.GetRequireSecondFactor())
		case "retain_payee_years":
			patch.RetainPayeeYears = affiliate.Set(int(req.GetRetainPayeeYears()))
		case "test_mail_redirect":
			patch.TestMailRedirect = affiliate.Clear[string]()
			if req.TestMailRedirect != nil {
				patch.TestMailRedirect = affiliate.Set(strings.ToLower(req.GetTestMailRedirect()))
			}
		}
	}
	return patch
}

// booksClosedUntilOf returns the date or time up to which the request closes the books. It
// is empty if the request's mask does not name the field.
func booksClosedUntilOf(req *affiliatev1.UpdateWorkspaceRequest) string {
	if !slices.Contains(req.GetUpdateMask().GetPaths(), "books_closed_until") {
		return ""
	}
	return req.GetBooksClosedUntil()
}

// normalOrigins returns the origins in normalised form and without duplicates, in their
// original order. Check has rejected invalid origins.
func normalOrigins(origins []string) []string {
	normal := make([]string, 0, len(origins))
	for _, origin := range origins {
		if o, ok := affiliate.ParseOrigin(origin); ok && !slices.Contains(normal, o) {
			normal = append(normal, o)
		}
	}
	return normal
}
