package pgtest

import (
	"encoding/json"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Shop is a workspace in one mode, with its owner and an active programme.
type Shop struct {
	*Fixture
	Scope   affiliate.Scope
	Owner   affiliate.UserID
	Program affiliate.ProgramID
}

// NewShop creates a workspace and its owner, and a programme in the given mode. The given
// rows replace default values of the programme's columns.
func (f *Fixture) NewShop(mode affiliate.Mode, changes ...Row) *Shop {
	f.Helper()
	s := &Shop{Fixture: f, Scope: affiliate.Scope{Workspace: f.NewWorkspace(), Mode: mode}}
	s.Owner = f.NewMember(s.Scope.Workspace, affiliate.RoleOwner)
	s.Program = f.NewProgram(s.Scope, changes...)
	return s
}

// InOtherMode returns the same workspace in the other mode, with a new programme in that
// mode.
func (s *Shop) InOtherMode(changes ...Row) *Shop {
	s.Helper()
	other := &Shop{Fixture: s.Fixture, Scope: affiliate.Scope{Workspace: s.Scope.Workspace, Mode: s.Scope.Mode.Other()}, Owner: s.Owner}
	other.Program = s.NewProgram(other.Scope, changes...)
	return other
}

// Join creates a partner and makes the partner an approved participant in the shop's
// programme. The given rows replace default values of the participant's columns.
func (s *Shop) Join(name string, changes ...Row) Participant {
	s.Helper()
	return s.NewParticipant(s.Scope, s.Program, s.NewPartner(name), changes...)
}

// NewWorkspace inserts a workspace with the currency EUR.
func (f *Fixture) NewWorkspace(changes ...Row) affiliate.WorkspaceID {
	f.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.WorkspaceID](now)
	f.Insert("workspaces", append([]Row{{
		"id": id, "name": "Shop", "currency": "EUR", "timezone": "UTC", "created_at": now, "updated_at": now,
	}}, changes...)...)
	return id
}

// grossRules returns the default rules of a programme, but without deductions from the
// amounts of sales.
func grossRules() program.Rules {
	rules := program.DefaultRules()
	rules.NetBasis = program.Gross
	return rules
}

// NewProgram inserts an active, public programme with the default rules, but without
// deductions from the amounts of sales. Its website is https://shop.example/, and its
// allowed domains are shop.example and the subdomains of brand.example.
func (f *Fixture) NewProgram(scope affiliate.Scope, changes ...Row) affiliate.ProgramID {
	f.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.ProgramID](now)
	rules, err := json.Marshal(grossRules())
	if err != nil {
		f.Fatal(err)
	}
	f.Insert("programs", append([]Row{{
		"workspace_id": scope.Workspace, "id": id, "mode": scope.Mode, "name": "P", "slug": id.String(), "status": program.Active,
		"website_url": "https://shop.example/", "allowed_domains": []string{"shop.example", "*.brand.example"}, "currency": "EUR",
		"attribution_window_days": 30, "attribution_model": program.LastClick, "link_param": "via", "auto_approve_partners": false,
		"is_public": true, "rules": string(rules), "rules_version": 1, "created_at": now, "updated_at": now,
	}}, changes...)...)
	return id
}

// Rules returns the columns for the rules of a programme that pays 30 percent. Their version
// is 4. The given functions change the rules.
func Rules(change ...func(*program.Rules)) Row {
	r := grossRules()
	r.RateBps = new(int64(3000))
	for _, c := range change {
		c(&r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return Row{"rules": string(text), "rules_version": 4}
}

// NewEndpoint inserts an active webhook endpoint that receives all events. The given rows
// replace default values of the endpoint's columns.
func (f *Fixture) NewEndpoint(scope affiliate.Scope, changes ...Row) affiliate.EndpointID {
	f.Helper()
	id := affiliate.NewID[affiliate.EndpointID](f.Now())
	f.Insert("webhook_endpoints", append([]Row{{
		"workspace_id": scope.Workspace, "id": id, "mode": scope.Mode, "url": "https://example.com/", "subscriptions": []string{"*"},
		"active": true, "created_at": f.Now(), "updated_at": f.Now(), "version": 1,
	}}, changes...)...)
	return id
}

// NewPartner inserts the account of a partner with a unique email address.
func (f *Fixture) NewPartner(name string, changes ...Row) affiliate.UserID {
	f.Helper()
	return f.newUser("partner", name, changes)
}

// NewMerchant inserts the account of a merchant who is not a member of any workspace.
func (f *Fixture) NewMerchant(name string, changes ...Row) affiliate.UserID {
	f.Helper()
	return f.newUser("merchant", name, changes)
}

// NewMember inserts the account of a merchant who is a member of a workspace. The given
// rows replace default values of the account's columns.
func (f *Fixture) NewMember(workspace affiliate.WorkspaceID, role affiliate.Role, changes ...Row) affiliate.UserID {
	f.Helper()
	id := f.NewMerchant("Mara", changes...)
	f.Insert("members", Row{"workspace_id": workspace, "user_id": id, "role": role, "created_at": f.Now()})
	return id
}

// RedirectTestMail redirects the mail of a shop's test mode to the verified address of a
// new member.
func (s *Shop) RedirectTestMail(email string) {
	s.Helper()
	s.Exec(`delete from members where user_id in (select id from users where email = $1)`, email)
	s.NewMember(s.Scope.Workspace, affiliate.RoleViewer, Row{"email": email, "email_verified_at": s.Now()})
	s.Exec(`update workspaces set test_mail_redirect = $2 where id = $1`, s.Scope.Workspace, email)
}

func (f *Fixture) newUser(kind, name string, changes []Row) affiliate.UserID {
	f.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.UserID](now)
	f.Insert("users", append([]Row{{
		"id": id, "kind": kind, "email": "jane-" + id.String() + "@example.com", "password_hash": "", "name": name, "created_at": now,
	}}, changes...)...)
	return id
}

// NewGroup inserts a group of a programme, with a rate of 10 percent.
func (f *Fixture) NewGroup(scope affiliate.Scope, programID affiliate.ProgramID, name string, change ...func(*program.Group)) program.Group {
	f.Helper()
	now := f.Now().UTC().Truncate(time.Millisecond)
	g := program.Group{
		ID: affiliate.NewID[affiliate.GroupID](now), Workspace: scope.Workspace, Program: programID, Name: name,
		Rate: program.Rate{Bps: new(int64(1000))}, Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	apply(&g, change)
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return programs.InsertGroup(f.Context(), tx, g) })
	if err != nil {
		f.Fatal(err)
	}
	return g
}
