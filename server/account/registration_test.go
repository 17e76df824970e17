package account_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	accountservice "github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// withRegistration returns an account service with the given settings.
func (f *fixture) withRegistration(merchant, partner account.Registration) *accountservice.Service {
	return accountservice.New(accountservice.Config{
		DB: f.DB, Signer: f.keys, Seal: f.sealer, HashKeys: hashKeys, Now: f.Now,
		MerchantRegistration: merchant, PartnerRegistration: partner,
	})
}

func TestRegisterMerchant_Setting(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant("owner@shop.example")
	shop := f.team(owner)
	for _, tc := range []struct {
		name    string
		setting account.Registration
		// invited is the address of the invitation whose token is sent. It is empty if no
		// token is sent.
		invited string
		expired bool
		joins   bool
		refused affiliate.Reason
	}{
		{name: "open", setting: account.OpenRegistration},
		{name: "open, with an invitation", setting: account.OpenRegistration, invited: "new@shop.example", joins: true},
		{name: "open, with the invitation of another address", setting: account.OpenRegistration, invited: "other@shop.example", refused: affiliate.ReasonRegistrationClosed},
		{name: "invite, without an invitation", setting: account.InviteRegistration, refused: affiliate.ReasonRegistrationClosed},
		{name: "invite, with an invitation", setting: account.InviteRegistration, invited: "new@shop.example", joins: true},
		{name: "invite, with the invitation of another address", setting: account.InviteRegistration, invited: "other@shop.example", refused: affiliate.ReasonRegistrationClosed},
		{name: "invite, with an expired invitation", setting: account.InviteRegistration, invited: "new@shop.example", expired: true, refused: affiliate.ReasonRegistrationClosed},
		{name: "closed", setting: account.ClosedRegistration, refused: affiliate.ReasonRegistrationClosed},
		{name: "closed, with an invitation", setting: account.ClosedRegistration, invited: "new@shop.example", refused: affiliate.ReasonRegistrationClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.Exec(`update users set email = id || '@gone.example' where email = 'new@shop.example'`)
			req := &affiliatev1.RegisterMerchantRequest{Email: "New@shop.example", Password: password, Name: "Nora", WorkspaceName: "Another shop"}
			if tc.invited != "" {
				req.InviteToken = new(shop.invite(tc.invited, affiliatev1.Role_ROLE_VIEWER).Token)
			}
			if tc.expired {
				f.Exec(`update member_invites set expires_at = $1`, f.Now())
			}
			users := f.Count(`select count(*) from users`)
			got, err := f.withRegistration(tc.setting, account.OpenRegistration).RegisterMerchant(t.Context(), req)
			if tc.refused != "" {
				pgtest.RequireRefusal(t, err, tc.refused)
				if n := f.Count(`select count(*) from users`); n != users {
					t.Errorf("%d users after the refusal, want %d", n, users)
				}
				return
			}
			if err != nil || (got.Workspace.Id == owner.Workspace.Id) != tc.joins {
				t.Errorf("RegisterMerchant returned %v, %v; want a member of the inviting workspace: %t", got, err, tc.joins)
			}
		})
	}
	t.Run("members of a workspace can be invited if the registration is closed", func(t *testing.T) {
		token := shop.invite("late@shop.example", affiliatev1.Role_ROLE_ADMIN).Token
		if _, err := f.withRegistration(account.ClosedRegistration, account.OpenRegistration).AcceptInvite(t.Context(),
			&affiliatev1.AcceptInviteRequest{Token: token, Name: "Lara", Password: password}); err != nil {
			t.Errorf("AcceptInvite returned the error %v", err)
		}
	})
}

func TestRegisterMerchant_SetupCode(t *testing.T) {
	f := newFixture(t)
	closed := f.withRegistration(account.ClosedRegistration, account.OpenRegistration)
	register := func(email, code string) error {
		_, err := closed.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
			Email: email, Password: password, Name: "Mia", WorkspaceName: "Shop", SetupCode: &code,
		})
		return err
	}
	code := account.SetupCode(hashKeys)
	for _, wrong := range []string{"", "AAAA-BBBB-CCCC-DDDD", code[:len(code)-1], code + "A"} {
		pgtest.RequireRefusal(t, register("mia@shop.example", wrong), affiliate.ReasonValidation, "setup_code")
	}
	if users := f.Count(`select count(*) from users`); users != 0 {
		t.Fatalf("%d users after wrong codes, want none", users)
	}
	// Several people enter the code at the same time, in any case and with spaces.
	entered := strings.ToLower(strings.ReplaceAll(code, "-", " "))
	errs := make([]error, 5)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = register(fmt.Sprintf("mia%d@shop.example", i), entered) })
	}
	group.Wait()
	admitted := 0
	for _, err := range errs {
		if err == nil {
			admitted++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonRegistrationClosed)
	}
	if workspaces := f.Count(`select count(*) from workspaces`); admitted != 1 || workspaces != 1 {
		t.Errorf("%d registrations were admitted and %d workspaces created, want 1", admitted, workspaces)
	}
	f.Exec(`update workspaces set erased_at = now()`)
	pgtest.RequireRefusal(t, register("later@shop.example", code), affiliate.ReasonRegistrationClosed)
}

func TestRegisterPartner_Setting(t *testing.T) {
	f := newFixture(t)
	shop := f.NewShop(affiliate.ModeTest)
	token := func(address string, expires time.Time) string {
		tokens, digests := account.NewInviteTokens()
		f.Insert("participant_invites", pgtest.Row{
			"workspace_id": shop.Scope.Workspace, "id": affiliate.NewID[affiliate.InviteID](f.Now()), "program_id": shop.Program, "mode": shop.Scope.Mode,
			"email": address, "digest": digests.Shown[:], "mail_digest": digests.Mailed[:], "invited_by": shop.Owner, "created_at": f.Now(), "expires_at": expires,
		})
		return tokens.Shown
	}
	later := f.Now().Add(time.Hour)
	register := func(setting account.Registration, email string, inviteToken *string) error {
		_, err := f.withRegistration(account.OpenRegistration, setting).RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{
			Email: email, Password: password, Name: "Pia", InviteToken: inviteToken,
		})
		return err
	}
	invited, expired := token("pia@blog.example", later), token("late@blog.example", f.Now())
	for name, err := range map[string]error{
		"no token":        register(account.InviteRegistration, "pia@blog.example", nil),
		"unknown token":   register(account.InviteRegistration, "pia@blog.example", new("inv_unknown")),
		"another address": register(account.InviteRegistration, "eve@blog.example", &invited),
		"expired":         register(account.InviteRegistration, "late@blog.example", &expired),
	} {
		t.Run(name, func(t *testing.T) { pgtest.RequireRefusal(t, err, affiliate.ReasonRegistrationClosed) })
	}
	if err := register(account.InviteRegistration, "Pia@Blog.example", &invited); err != nil {
		t.Errorf("the invited partner got the error %v", err)
	}
	if err := register(account.OpenRegistration, "open@blog.example", nil); err != nil {
		t.Errorf("open registration returned the error %v", err)
	}
}

func TestCreateWorkspace_OwnerSetsPassword(t *testing.T) {
	f := newFixture(t)
	closed := f.withRegistration(account.ClosedRegistration, account.InviteRegistration)
	id, token, err := closed.CreateWorkspace(t.Context(), "First@shop.example", "Fay", "First shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, guess := range []string{"", password} {
		_, err := closed.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "first@shop.example", Password: guess})
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
	f.clock.Advance(6 * 24 * time.Hour)
	if _, err := closed.ResetMerchantPassword(t.Context(), &affiliatev1.ResetPasswordRequest{Token: token, Password: password}); err != nil {
		t.Fatal(err)
	}
	session, err := closed.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "first@shop.example", Password: password})
	if err != nil || session.Workspace.Id != id.String() || session.Workspace.Name != "First shop" || session.User.Role != affiliatev1.Role_ROLE_OWNER {
		t.Errorf("LoginMerchant returned %v, %v; want a session of the owner of the workspace", session, err)
	}
	if n := f.Count(`select count(*) from api_keys where workspace_id = $1 and kind = 'public'`, id); n != 2 {
		t.Errorf("the workspace has %d public keys, want 2", n)
	}
	_, _, err = closed.CreateWorkspace(t.Context(), "first@shop.example", "Fay", "Second shop")
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
}
