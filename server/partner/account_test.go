package partner_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	paypal       = affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL
	wise         = affiliatev1.PayoutMethod_PAYOUT_METHOD_WISE
	bankTransfer = affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER
	storeCredit  = affiliatev1.PayoutMethod_PAYOUT_METHOD_STORE_CREDIT
	manual       = affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL
)

func (f *fixture) update(user affiliate.UserID, req *affiliatev1.UpdatePartnerProfileRequest, paths ...string) (*affiliatev1.PartnerProfile, error) {
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.UpdatePartnerProfile(f.asLivePartner(user), req)
}

// setMethod checks and sends a request to set the payout method.
func (f *fixture) setMethod(user affiliate.UserID, req *affiliatev1.SetPayoutMethodRequest) (*affiliatev1.PayoutMethodDetails, error) {
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.SetPayoutMethod(f.asLivePartner(user), req)
}

func TestUpdateProfile_RejectsNameWithLink(t *testing.T) {
	f := newFixture(t)
	found := f.service.Check(&affiliatev1.UpdatePartnerProfileRequest{Name: "https://evil.example", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
	if len(found) != 1 || found[0].Field != "name" || found[0].Message != affiliate.MustBePlainName {
		t.Errorf("Check found %v, want one violation of name", found)
	}
}

func TestUpdatePartnerProfile(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	type req = affiliatev1.UpdatePartnerProfileRequest
	want := &affiliatev1.PartnerProfile{Id: jane.String(), Email: "jane@example.com", Name: "Jane", Locale: "en", CreatedAt: f.profile(jane).CreatedAt}
	changes := 0
	for _, tc := range []struct {
		name   string
		req    *req
		paths  []string
		change func(*affiliatev1.PartnerProfile) // nil if nothing changes
	}{
		{"nothing", &req{}, nil, nil},
		{"same name", &req{Name: "Jane"}, []string{"name"}, nil},
		{"field outside the mask", &req{Name: "Nobody", Country: new("DE")}, []string{"country"}, func(p *affiliatev1.PartnerProfile) { p.Country = new("DE") }},
		{
			"all fields",
			&req{Name: "Jane Doe", Country: new("FR"), CompanyName: new("Acme"), WebsiteUrl: new("https://jane.example/x")},
			[]string{"name", "country", "company_name", "website_url"},
			func(p *affiliatev1.PartnerProfile) {
				p.Name, p.Country, p.CompanyName, p.WebsiteUrl = "Jane Doe", new("FR"), new("Acme"), new("https://jane.example/x")
			},
		},
		{"empty company", &req{CompanyName: new("")}, []string{"company_name"}, func(p *affiliatev1.PartnerProfile) { p.CompanyName = nil }},
		{"company cleared again", &req{}, []string{"company_name"}, nil},
		{"locale", &req{Locale: "de"}, []string{"locale"}, func(p *affiliatev1.PartnerProfile) { p.Locale = "de" }},
		{"country and website cleared", &req{}, []string{"country", "website_url"}, func(p *affiliatev1.PartnerProfile) { p.Country, p.WebsiteUrl = nil, nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := f.update(jane, tc.req, tc.paths...)
			if err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(want)
				changes++
			}
			servertest.WantMessage(t, "UpdatePartnerProfile", got, want)
			read, err := f.service.GetPartnerProfile(f.asPartner(jane, affiliate.ModeTest), &affiliatev1.GetPartnerProfileRequest{})
			if err != nil {
				t.Fatal(err)
			}
			servertest.WantMessage(t, "GetPartnerProfile", read, want)
			f.WantCount(1+changes, "version", `select version from users where id = $1`, jane)
			f.WantCount(changes, "audit records",
				`select count(*) from account_audit_log where user_id = $1 and action = 'profile.update' and at = $2`, jane, f.Now().Truncate(time.Millisecond))
		})
	}
	// The audit log names the changed fields but not their values.
	f.WantCount(1, "audit records that name only the country", `select count(*) from account_audit_log where before is null and after = '{"changed": ["country"]}'`)
}

func TestUpdatePartnerProfile_RejectsInvalidRequests(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	before := f.profile(jane)
	type req = affiliatev1.UpdatePartnerProfileRequest
	for name, tc := range map[string]struct {
		req  *req
		path string
	}{
		"name cleared":    {&req{}, "name"},
		"no mask":         {&req{Name: "N"}, ""},
		"unknown path":    {&req{}, "email"},
		"invalid website": {&req{WebsiteUrl: new("javascript:alert(1)")}, "website_url"},
		"empty website":   {&req{WebsiteUrl: new("")}, "website_url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.update(jane, tc.req, strings.Fields(tc.path)...)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation)
		})
	}
	servertest.WantMessage(t, "GetPartnerProfile after refused updates", f.profile(jane), before)
}

// The merchants' lists show the new name of the partner in all modes.
func TestUpdatePartnerProfile_RenamesTheParticipants(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	live := f.program(f.workspace("One"), "Alpha", nil)
	test := f.program(live.Scope.Workspace, "Test", pgtest.Row{"mode": "test"})
	inLive := live.join(jane, pgtest.Row{"partner_name": "Jane"})
	test.join(jane, pgtest.Row{"partner_name": "Jane"})
	live.join(john, pgtest.Row{"partner_name": "John"})
	live.addCommission(inLive)
	records := `select (select count(*) from audit_log) + (select count(*) from events)`
	before := f.Count(records)
	if _, err := f.update(jane, &affiliatev1.UpdatePartnerProfileRequest{Name: "Jane Doe"}, "name"); err != nil {
		t.Fatal(err)
	}
	names := f.Texts(`select mode || ' ' || partner_name from participants order by 1`)
	if want := []string{"live Jane Doe", "live John", "test Jane Doe"}; !slices.Equal(names, want) {
		t.Errorf("the participants have the names %q, want %q", names, want)
	}
	items, _, err := commissions.List(t.Context(), f.DB, live.Scope, commission.Filter{Search: "jane d"},
		commission.Order{By: commission.SortCreatedAt}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || len(items) != 1 || items[0].PartnerName != "Jane Doe" {
		t.Errorf("the merchant's search for commissions by the new name returned %v, error %v, want one commission of Jane Doe", items, err)
	}
	f.WantCount(1, "version of the other user", `select version from users where id = $1`, john)
	f.WantCount(before, "records in the workspace's audit log and events", records)
}

func TestPartnerProfile_OfErasedOrMerchantAccountIsNotFound(t *testing.T) {
	f := newFixture(t)
	for name, user := range map[string]affiliate.UserID{
		"erased partner": f.NewPartner("Erased", pgtest.Row{"erased_at": f.Now()}),
		"merchant":       f.NewMerchant("Mara"),
		"unknown":        affiliate.NewID[affiliate.UserID](f.Now()),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetPartnerProfile(f.asLivePartner(user), &affiliatev1.GetPartnerProfileRequest{})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.update(user, &affiliatev1.UpdatePartnerProfileRequest{Name: "N"}, "name")
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.setMethod(user, &affiliatev1.SetPayoutMethodRequest{Method: manual})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	f.WantCount(0, "audit records of refused calls", `select count(*) from account_audit_log`)
	f.WantCount(0, "payout methods of refused calls", `select count(*) from payout_methods`)
}

func TestSetPayoutMethod_StoresTheAccountOnlyEncrypted(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	f.program(f.workspace("One"), "Alpha", nil).join(jane, nil)
	type req = affiliatev1.SetPayoutMethodRequest
	paypalRequest := &req{Method: paypal, Account: new("payme@mail.example")}
	records := 0
	for _, tc := range []struct {
		name      string
		req       *req
		wantHint  *string
		plainText []string // must be neither in the database nor in a response
		unchanged bool     // the payout method is the same as in the previous case
	}{
		{"PayPal", paypalRequest, new("p***@mail.example"), []string{"payme@mail.example"}, false},
		{"Wise with the same account", &req{Method: wise, Account: new("payme@mail.example")}, new("p***@mail.example"), []string{"payme@mail.example"}, false},
		{
			"bank account", &req{Method: bankTransfer, Account: new("de89 3704 0044 0532 0130 00"), AccountHolder: new("Jane Q. Holder")},
			new("••••3000"),
			[]string{"DE89370400440532013000", "de89 3704", "Jane Q. Holder"},
			false,
		},
		{"same bank account", &req{Method: bankTransfer, Account: new("DE89370400440532013000"), AccountHolder: new("Jane Q. Holder")}, new("••••3000"), nil, true},
		{"other holder", &req{Method: bankTransfer, Account: new("DE89370400440532013000"), AccountHolder: new("J. Holder")}, new("••••3000"), []string{"J. Holder"}, false},
		{"manual", &req{Method: manual}, nil, nil, false},
		{"manual again", &req{Method: manual}, nil, nil, true},
		{"store credit", &req{Method: storeCredit}, nil, nil, false},
		{"PayPal again", paypalRequest, new("p***@mail.example"), []string{"payme@mail.example"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := f.profile(jane).PayoutMethod
			f.clock.Advance(time.Second)
			got, err := f.setMethod(jane, tc.req)
			if err != nil {
				t.Fatal(err)
			}
			want := &affiliatev1.PayoutMethodDetails{Method: tc.req.Method, AccountHint: tc.wantHint, UpdatedAt: server.Timestamp(f.Now().Truncate(time.Millisecond))}
			if tc.unchanged {
				want.UpdatedAt = before.GetUpdatedAt()
				want.HeldUntil = before.GetHeldUntil()
			} else {
				records++
				if before != nil {
					want.HeldUntil = server.Timestamp(f.Now().Truncate(time.Millisecond).Add(payout.AccountHold))
				}
			}
			servertest.WantMessage(t, "SetPayoutMethod", got, want)
			profile := f.profile(jane)
			servertest.WantMessage(t, "GetPartnerProfile", profile.PayoutMethod, want)
			f.WantCount(records, "audit records", `select count(*) from account_audit_log where user_id = $1 and action = 'payout_method.set'`, jane)
			dump := f.dump()
			if !strings.Contains(dump, "jane@example.com") {
				t.Fatal("the dump is not complete: it does not contain the user's e-mail address")
			}
			for _, text := range tc.plainText {
				if strings.Contains(dump, text) || strings.Contains(dump, hex.EncodeToString([]byte(text))) {
					t.Errorf("the database contains %q", text)
				}
				if strings.Contains(protojson.Format(profile)+protojson.Format(got), text) {
					t.Errorf("a response contains %q", text)
				}
			}
		})
	}
	f.WantCount(records, "notifications of the partner", `select count(*) from notifications where user_id = $1 and type = 'security.payout_method_changed'`, jane)
	f.WantCount(1, "audit records of the change from a bank transfer to manual",
		`select count(*) from account_audit_log where before = '{"method": "bank_transfer", "account_hint": "••••3000"}' and after = '{"method": "manual", "account_hint": null}'`)
	f.WantCount(0, "audit records of a workspace", `select count(*) from audit_log`)
	f.WantCount(0, "events", `select count(*) from events`)
}

// A person who has stolen an account can change its address before the payout method. So
// the warning must reach the address that the account had before, even if the address was
// changed several times.
func TestSetPayoutMethod_WarnsTheFormerAddress(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	changeAddress := func(address string) {
		t.Helper()
		err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return accounts.ChangeEmail(t.Context(), tx, jane, address, f.Now()) })
		if err != nil {
			t.Fatal(err)
		}
	}
	setMethod := func(account string, wantMails int) {
		t.Helper()
		if _, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: &account}); err != nil {
			t.Fatal(err)
		}
		f.WantCount(wantMails, "mails to the former address", `select count(*) from mails where kind = 'payout_method_changed' and recipient = 'jane@example.com'`)
	}
	setMethod("jane@mail.example", 0)
	changeAddress("mallory@example.com")
	changeAddress("trudy@example.com")
	setMethod("trudy@mail.example", 1)
	setMethod("trudy@mail.example", 1) // nothing changes
	f.WantCount(1, "mails of the kind", `select count(*) from mails where kind = 'payout_method_changed'`)

	forget := func(at time.Time, want int64) {
		t.Helper()
		if n, err := accounts.DeletePreviousEmails(t.Context(), f.DB, at.Add(-payout.PreviousEmailKept), 10); err != nil || n != want {
			t.Errorf("DeletePreviousEmails deleted %d addresses (%v), want %d", n, err, want)
		}
	}
	forget(f.Now().Add(payout.PreviousEmailKept), 0)
	forget(f.Now().Add(payout.PreviousEmailKept+time.Millisecond), 1)
	setMethod("jane@mail.example", 1)

	// An address to which the partner returns is not a former one.
	changeAddress("jane@example.com")
	changeAddress("trudy@example.com")
	setMethod("trudy@mail.example", 1)
	f.WantCount(1, "mails of the kind", `select count(*) from mails where kind = 'payout_method_changed'`)
}

// A person with a stolen session can add a second factor shortly after the login, and
// authorise the first payout method with its code. The method is then held, and it is also
// held if money is owed, so that the owner of the account can notice it.
func TestSetPayoutMethod_HoldsFirstMethods(t *testing.T) {
	const day = 24 * time.Hour
	pending := func(p programme, j pgtest.Participant) { p.addCommission(j) }
	bonus := func(cents int64) func(programme, pgtest.Participant) {
		return func(p programme, j pgtest.Participant) {
			p.Insert("ledger_balances", pgtest.Row{
				"workspace_id": p.Scope.Workspace, "participant_id": j.ID, "currency": "EUR", "slot": 0, "balance_cents": cents,
			})
		}
	}
	for name, tc := range map[string]struct {
		factorAge time.Duration // 0 if the partner has no second factor
		mode      affiliate.Mode
		owed      func(programme, pgtest.Participant)
		held      bool
	}{
		"with the password":                {},
		"with a new second factor":         {factorAge: time.Minute, held: true},
		"with a factor of almost 72 hours": {factorAge: 3*day - time.Millisecond, held: true},
		"with a factor of 72 hours":        {factorAge: 3 * day},
		"with a pending commission":        {mode: affiliate.ModeLive, owed: pending, held: true},
		"with a pending test commission":   {mode: affiliate.ModeTest, owed: pending},
		"with a balance":                   {factorAge: 9 * day, mode: affiliate.ModeLive, owed: bonus(1), held: true},
		"with a balance of test mode":      {mode: affiliate.ModeTest, owed: bonus(1)},
		"with a debt":                      {mode: affiliate.ModeLive, owed: bonus(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			jane := f.user("Jane")
			if tc.owed != nil {
				p := f.program(f.workspace("One"), "Alpha", pgtest.Row{"mode": string(tc.mode)})
				tc.owed(p, p.join(jane, nil))
			}
			now := f.Now().Truncate(time.Millisecond)
			if tc.factorAge > 0 {
				f.owner.factorSince = new(now.Add(-tc.factorAge))
			}
			set := func(account string) *affiliatev1.PayoutMethodDetails {
				t.Helper()
				got, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: &account})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			want := now.Add(payout.AccountHold)
			if held := set("jane@mail.example").GetHeldUntil(); (held != nil) != tc.held || held != nil && !held.AsTime().Equal(want) {
				t.Errorf("the first method is held until %v, want held: %t, until %v", held, tc.held, want)
			}
			facts := f.Texts(`select coalesce(facts ->> 'until', '') from notifications where user_id = $1 and type = 'security.payout_method_changed'`, jane)
			if len(facts) != 1 || (facts[0] != "") != tc.held {
				t.Errorf("the notifications say that the method is held until %q, want held: %t", facts, tc.held)
			}
			f.clock.Advance(time.Second)
			if again := set("jane@mail.example").GetHeldUntil(); (again != nil) != tc.held || again != nil && !again.AsTime().Equal(want) {
				t.Errorf("the same method is held until %v after a second request, want held: %t, until %v", again, tc.held, want)
			}
			if set("trudy@mail.example").GetHeldUntil() == nil {
				t.Error("the second method is not held")
			}
		})
	}
}

// The encryption binds a payout account to the id of its owner. If the current keys can
// decrypt the stored account, SetPayoutMethod stores the account only if it changes. If
// the keys cannot decrypt the stored account, SetPayoutMethod encrypts and stores the
// account again.
func TestSetPayoutMethod_AccountIsDecryptedOnlyForItsOwner(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	setAndReadAccount := func() (encrypted []byte) {
		t.Helper()
		if _, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: new("payme@mail.example")}); err != nil {
			t.Fatal(err)
		}
		if err := f.SQL.QueryRow(t.Context(), `select account from payout_methods where user_id = $1`, jane).Scan(&encrypted); err != nil {
			t.Fatal(err)
		}
		return encrypted
	}
	const want = `{"account":"payme@mail.example"}`
	first := setAndReadAccount()
	if plain, err := f.keys.Open(first, []byte(jane.String())); err != nil || string(plain) != want {
		t.Errorf("the account was decrypted to %q, error %v, want %s", plain, err, want)
	}
	if plain, err := f.keys.Open(first, []byte(john.String())); err == nil {
		t.Errorf("the account was decrypted with another user's id to %q, want an error", plain)
	}
	f.useKeys(encryptionKeyEntry("k2", 2) + "," + encryptionKeyEntry("k1", 1))
	if !slices.Equal(setAndReadAccount(), first) {
		t.Error("after a new key was added, the same account was stored again")
	}
	f.useKeys(encryptionKeyEntry("k2", 2))
	if plain, err := f.keys.Open(setAndReadAccount(), []byte(jane.String())); err != nil || string(plain) != want {
		t.Errorf("after the old key was removed, the account was decrypted to %q, error %v, want %s", plain, err, want)
	}
}

func TestSetPayoutMethod_RejectsInvalidAccounts(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	type req = affiliatev1.SetPayoutMethodRequest
	for name, tc := range map[string]struct {
		req       *req
		wantField string
	}{
		"manual with account":       {&req{Method: manual, Account: new("x")}, "account"},
		"store credit with account": {&req{Method: storeCredit, Account: new("x")}, "account"},
		"PayPal without account":    {&req{Method: paypal}, "account"},
		"address with a name":       {&req{Method: wise, Account: new("Jane <jane@example.com>")}, "account"},
		"no account holder":         {&req{Method: bankTransfer, Account: new("DE89370400440532013000")}, "account_holder"},
		"wrong check digits":        {&req{Method: bankTransfer, Account: new("DE00370400440532013000"), AccountHolder: new("J")}, "account"},
		"method that cannot be set": {&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_STRIPE_CONNECT}, "method"},
		"no method":                 {&req{}, "method"},
	} {
		t.Run(name, func(t *testing.T) {
			found := f.service.Check(tc.req)
			pgtest.RequireRefusal(t, found.Err(), affiliate.ReasonValidation, tc.wantField)
			_, err := f.service.SetPayoutMethod(f.asLivePartner(jane), tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.wantField)
		})
	}
	f.WantCount(0, "payout methods of refused calls", `select count(*) from payout_methods`)
	f.WantCount(0, "audit records of refused calls", `select count(*) from account_audit_log`)
}

// When equal calls run in parallel, only one of them changes the data and writes an audit
// record.
func TestPartnerAccount_EqualCallsInParallelAreRecordedOnce(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	var calls sync.WaitGroup
	for range 12 {
		calls.Go(func() {
			if _, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: new("payme@mail.example")}); err != nil {
				t.Errorf("SetPayoutMethod: %v", err)
			}
			if _, err := f.update(jane, &affiliatev1.UpdatePartnerProfileRequest{Name: "Jane Doe"}, "name"); err != nil {
				t.Errorf("UpdatePartnerProfile: %v", err)
			}
		})
	}
	calls.Wait()
	f.WantCount(1, "audit records of the method", `select count(*) from account_audit_log where action = 'payout_method.set'`)
	f.WantCount(1, "audit records of the profile", `select count(*) from account_audit_log where action = 'profile.update'`)
	f.WantCount(2, "version", `select version from users where id = $1`, jane)
}

func TestAccountAuditLog_OmitsValues(t *testing.T) {
	f := newFixture(t)
	user := f.NewPartner("Secretia")
	for _, tc := range []struct {
		request *affiliatev1.UpdatePartnerProfileRequest
		fields  []string
	}{
		{&affiliatev1.UpdatePartnerProfileRequest{Name: "Secretina", Country: new("DE"), CompanyName: new("Secret Inc.")}, []string{"name", "country", "company_name"}},
		{&affiliatev1.UpdatePartnerProfileRequest{Name: "Secretina", WebsiteUrl: new("https://secret.example/")}, []string{"name", "website_url"}},
		{&affiliatev1.UpdatePartnerProfileRequest{Name: "Secretina"}, []string{"name"}},
	} {
		f.clock.Advance(time.Millisecond)
		if _, err := f.update(user, tc.request, tc.fields...); err != nil {
			t.Fatal(err)
		}
	}
	got := f.Texts(`select concat(action, ' ', before, ' → ', after) from account_audit_log where user_id = $1 order by at, id`, user)
	if want := []string{
		`profile.update  → {"changed": ["company_name", "country", "name"]}`,
		`profile.update  → {"changed": ["website_url"]}`,
	}; !slices.Equal(got, want) {
		t.Errorf("the account's audit log is\n%q\nwant\n%q", got, want)
	}
}

// A partner changes their name while the service creates participants of this partner. In
// the end, all participants must have the new name. Both transactions lock the
// partner's row in the table users.
func TestUpdatePartnerProfile_RenamesConcurrentParticipants(t *testing.T) {
	f := newFixture(t)
	scope := affiliate.Scope{Workspace: f.workspace("Shop"), Mode: affiliate.ModeLive}
	partnerID, programs := f.NewPartner("Zero"), make([]affiliate.ProgramID, 30)
	for i := range programs {
		programs[i] = f.NewProgram(scope)
	}
	service := participant.New(participant.Config{DB: f.DB, Now: f.Now})
	var wg sync.WaitGroup
	names := []string{"One", "Two", "Three", "Four", "Five"}
	wg.Go(func() {
		for _, name := range names {
			if _, err := f.update(partnerID, &affiliatev1.UpdatePartnerProfileRequest{Name: name}, "name"); err != nil {
				t.Errorf("UpdatePartnerProfile returned %v", err)
			}
		}
	})
	for _, program := range programs {
		wg.Go(func() {
			application := &affiliatev1.ApplyRequest{ProgramId: program.String()}
			if _, err := service.Apply(f.asLivePartner(partnerID), application); err != nil {
				t.Errorf("Apply returned %v", err)
			}
		})
	}
	wg.Wait()
	if n := f.Count(`select count(*) from participants where partner_name = 'Five'`); n != 30 {
		t.Errorf("%d participants have the new name, want 30", n)
	}
	if n := f.Count(`select version from users where id = $1`, partnerID); n != 1+len(names) {
		t.Errorf("the account has the version %d, want %d", n, 1+len(names))
	}
	if n := f.Count(`select count(*) from account_audit_log where user_id = $1 and action = 'profile.update'`, partnerID); n != len(names) {
		t.Errorf("the account's audit log has %d entries, want %d", n, len(names))
	}
}
