package partner_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) update(user affiliate.UserID, req *affiliatev1.UpdatePartnerProfileRequest, paths ...string) (*affiliatev1.PartnerProfile, error) {
	f.Helper()
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: paths}
	if err := f.check(req); err != nil {
		return nil, err
	}
	return f.service.UpdatePartnerProfile(f.liveContext(user), req)
}

func TestUpdatePartnerProfile(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	live := f.program(f.workspace("One"), "Alpha", nil)
	test := f.program(live.Scope.Workspace, "Test", map[string]any{"mode": "test"})
	inLive := live.join(jane, nil)
	test.join(jane, nil)
	live.join(john, nil)
	live.addCommission(inLive)
	f.Exec(`update participants t set partner_name = u.name from users u where u.id = t.partner_id`)
	recordsBefore := f.Count(`select count(*) from audit_log`) + f.Count(`select count(*) from events`)
	text := proto.String
	type req = affiliatev1.UpdatePartnerProfileRequest

	want := &affiliatev1.PartnerProfile{Id: jane.String(), Email: "jane@example.com", Name: "Jane"}
	changes := 0
	for _, tc := range []struct {
		name    string
		req     *req
		paths   []string
		change  func(*affiliatev1.PartnerProfile)
		refused bool
	}{
		{"nothing", &req{}, nil, nil, false},
		{"the same name", &req{Name: "Jane"}, []string{"name"}, nil, false},
		{"a field outside the mask", &req{Name: "Nobody", Country: text("DE")}, []string{"country"}, func(p *affiliatev1.PartnerProfile) { p.Country = text("DE") }, false},
		{"all fields", &req{Name: "Jane Doe", Country: text("FR"), CompanyName: text("Acme"), WebsiteUrl: text("https://jane.example/x")}, []string{"name", "country", "company_name", "website_url"}, func(p *affiliatev1.PartnerProfile) {
			p.Name, p.Country, p.CompanyName, p.WebsiteUrl = "Jane Doe", text("FR"), text("Acme"), text("https://jane.example/x")
		}, false},
		{"an empty company", &req{CompanyName: text("")}, []string{"company_name"}, func(p *affiliatev1.PartnerProfile) { p.CompanyName = nil }, false},
		{"cleared again", &req{}, []string{"company_name"}, nil, false},
		{"cleared", &req{}, []string{"country", "website_url"}, func(p *affiliatev1.PartnerProfile) { p.Country, p.WebsiteUrl = nil, nil }, false},
		{"the name cleared", &req{}, []string{"name"}, nil, true},
		{"no mask", &req{Name: "N"}, nil, nil, true},
		{"another path", &req{}, []string{"email"}, nil, true},
		{"invalid website", &req{WebsiteUrl: text("javascript:alert(1)")}, []string{"website_url"}, nil, true},
		{"an empty website", &req{WebsiteUrl: text("")}, []string{"website_url"}, nil, true},
	} {
		got, err := f.update(jane, tc.req, tc.paths...)
		if tc.refused {
			if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonValidation {
				t.Errorf("%s: %q", tc.name, reason)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if tc.change != nil {
			tc.change(want)
			changes++
		}
		want.CreatedAt = got.CreatedAt
		if !proto.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tc.name, got, want)
		}
		read, err := f.service.GetPartnerProfile(f.callContext(jane, affiliate.ModeTest), &affiliatev1.GetPartnerProfileRequest{})
		if err != nil || !proto.Equal(read, got) {
			t.Errorf("%s: read %v, %v", tc.name, read, err)
		}
		if n := f.Count(`select version from users where id = $1`, jane); n != 1+changes {
			t.Errorf("%s: version %d after %d changes", tc.name, n, changes)
		}
		if n := f.Count(`select count(*) from account_audit_log where user_id = $1 and action = 'profile.update' and at = $2`, jane, f.Now().Truncate(1e6)); n != changes {
			t.Errorf("%s: %d audit records after %d changes", tc.name, n, changes)
		}
	}

	// The audit log names the changed fields but not their values. The participations have
	// the new name.
	if n := f.Count(`select count(*) from account_audit_log where before is null and after = '{"changed": ["country"]}'`); n != 1 {
		t.Errorf("%d audit records name only the country", n)
	}
	if n := f.Count(`select count(*) from participants where partner_name = 'Jane Doe' and partner_id = $1`, jane); n != 2 {
		t.Errorf("%d participations have the new name", n)
	}
	if n := f.Count(`select count(*) from participants where partner_name = 'John'`); n != 1 {
		t.Error("another partner's name has changed")
	}
	items, _, err := f.Store.Commissions(t.Context(), live.Scope, affiliate.CommissionFilter{Search: "jane d"},
		affiliate.CommissionOrder{By: affiliate.SortCreatedAt}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || len(items) != 1 || items[0].PartnerName != "Jane Doe" {
		t.Errorf("the merchant's list: %v, %v", items, err)
	}
	if n := f.Count(`select version from users where id = $1`, john); n != 1 {
		t.Errorf("the other user has the version %d, want 1", n)
	}
	if n := f.Count(`select count(*) from audit_log`) + f.Count(`select count(*) from events`) - recordsBefore; n != 0 {
		t.Errorf("the update wrote %d records to a workspace's audit log or events, want none", n)
	}
}

func TestPartnerProfile_OfErasedOrMerchantAccountIsNotFound(t *testing.T) {
	f := newFixture(t)
	erased, merchant := f.user("Erased"), f.user("Merchant")
	f.Exec(`update users set erased_at = $2 where id = $1`, erased, f.Now())
	f.Exec(`update users set kind = 'merchant' where id = $1`, merchant)
	for _, user := range []affiliate.UserID{erased, merchant, affiliate.NewID[affiliate.User](f.Now())} {
		_, getErr := f.service.GetPartnerProfile(f.liveContext(user), &affiliatev1.GetPartnerProfileRequest{})
		_, updateErr := f.update(user, &affiliatev1.UpdatePartnerProfileRequest{Name: "N"}, "name")
		_, setErr := f.service.SetPayoutMethod(f.liveContext(user), &affiliatev1.SetPayoutMethodRequest{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL})
		for i, err := range []error{getErr, updateErr, setErr} {
			if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonNotFound {
				t.Errorf("call %d: %q", i, got)
			}
		}
	}
	if n := f.Count(`select count(*) from account_audit_log`) + f.Count(`select count(*) from payout_methods`); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
}

func TestSetPayoutMethod_StoresTheAccountOnlyEncrypted(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	live := f.program(f.workspace("One"), "Alpha", nil)
	live.join(jane, nil)
	text := proto.String
	type req = affiliatev1.SetPayoutMethodRequest
	records := 0
	for _, tc := range []struct {
		req    *req
		hint   string
		hidden []string
		same   bool
	}{
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL, Account: text("payme@mail.example")}, "p***@mail.example", []string{"payme@mail.example"}, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_WISE, Account: text("payme@mail.example")}, "p***@mail.example", []string{"payme@mail.example"}, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER, Account: text("de89 3704 0044 0532 0130 00"), AccountHolder: text("Jane Q. Holder")}, "••••3000", []string{"DE89370400440532013000", "de89 3704", "Jane Q. Holder"}, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER, Account: text("DE89370400440532013000"), AccountHolder: text("Jane Q. Holder")}, "••••3000", nil, true},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER, Account: text("DE89370400440532013000"), AccountHolder: text("J. Holder")}, "••••3000", []string{"J. Holder"}, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL}, "", nil, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL}, "", nil, true},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_STORE_CREDIT}, "", nil, false},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL, Account: text("payme@mail.example")}, "p***@mail.example", []string{"payme@mail.example"}, false},
	} {
		if err := f.check(tc.req); err != nil {
			t.Fatal(err)
		}
		before, err := f.service.GetPartnerProfile(f.liveContext(jane), &affiliatev1.GetPartnerProfileRequest{})
		if err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(1e9)
		got, err := f.service.SetPayoutMethod(f.liveContext(jane), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		if got.Method != tc.req.Method || got.GetAccountHint() != tc.hint || (got.AccountHint == nil) != (tc.hint == "") {
			t.Errorf("%v returned %v", tc.req, got)
		}
		after, err := f.service.GetPartnerProfile(f.liveContext(jane), &affiliatev1.GetPartnerProfileRequest{})
		if err != nil || !proto.Equal(after.PayoutMethod, got) {
			t.Errorf("the profile has %v, %v", after, err)
		}
		if tc.same != proto.Equal(before.PayoutMethod, got) {
			t.Errorf("%v: before %v, after %v", tc.req, before.PayoutMethod, got)
		}
		if !tc.same {
			records++
		}
		if n := f.Count(`select count(*) from account_audit_log where user_id = $1 and action = 'payout_method.set'`, jane); n != records {
			t.Errorf("%v: %d audit records, want %d", tc.req, n, records)
		}
		dump := f.dump()
		if !strings.Contains(dump, "jane@example.com") {
			t.Fatal("the dump does not contain the user's address")
		}
		for _, hidden := range tc.hidden {
			if strings.Contains(dump, hidden) || strings.Contains(dump, hex.EncodeToString([]byte(hidden))) {
				t.Errorf("%q is in the database", hidden)
			}
			if strings.Contains(protojson.Format(after)+protojson.Format(got), hidden) {
				t.Errorf("%q is in a response", hidden)
			}
		}
	}
	if n := f.Count(`select count(*) from account_audit_log where before = '{"method": "bank_transfer", "account_hint": "••••3000"}' and after = '{"method": "manual", "account_hint": null}'`); n != 1 {
		t.Errorf("%d audit records of the change from a bank transfer to manual", n)
	}
	if n := f.Count(`select count(*) from audit_log`) + f.Count(`select count(*) from events`); n != 0 {
		t.Error("a workspace's audit log or the events have the payout method")
	}
}

func TestSetPayoutMethod_AccountIsDecryptedOnlyForItsOwner(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	account := &affiliatev1.SetPayoutMethodRequest{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL, Account: proto.String("payme@mail.example")}
	set := func() {
		t.Helper()
		if _, err := f.service.SetPayoutMethod(f.liveContext(jane), account); err != nil {
			t.Fatal(err)
		}
	}
	stored := func() (sealed []byte) {
		t.Helper()
		if err := f.SQL.QueryRow(t.Context(), `select account from payout_methods where user_id = $1`, jane).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	set()
	first := stored()
	if plain, err := f.keys.Open(first, []byte(jane.String())); err != nil || string(plain) != `{"account":"payme@mail.example"}` {
		t.Errorf("opened %q, %v", plain, err)
	}
	if _, err := f.keys.Open(first, []byte(john.String())); err == nil {
		t.Error("the account was decrypted with another user's id")
	}

	// With a new first key, setting the same account again stores nothing. Without the old
	// key, the account cannot be decrypted, so it is encrypted again.
	f.useKeys(sealEntry("k2", 2) + "," + sealEntry("k1", 1))
	set()
	if !slices.Equal(stored(), first) {
		t.Error("the same account was stored again")
	}
	f.useKeys(sealEntry("k2", 2))
	set()
	if plain, err := f.keys.Open(stored(), []byte(jane.String())); err != nil || !strings.Contains(string(plain), "payme@") {
		t.Errorf("opened %q, %v", plain, err)
	}
}

func TestSetPayoutMethod_RejectsInvalidAccounts(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	text := proto.String
	type req = affiliatev1.SetPayoutMethodRequest
	for _, tc := range []struct {
		req   *req
		field string
	}{
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL, Account: text("x")}, "account"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_STORE_CREDIT, Account: text("x")}, "account"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL}, "account"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_WISE, Account: text("Jane <jane@example.com>")}, "account"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER, Account: text("DE89370400440532013000")}, "account_holder"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_BANK_TRANSFER, Account: text("DE00370400440532013000"), AccountHolder: text("J")}, "account"},
		{&req{Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_STRIPE_CONNECT}, "method"},
		{&req{}, "method"},
	} {
		for _, err := range []error{f.check(tc.req), func() error { _, err := f.service.SetPayoutMethod(f.liveContext(jane), tc.req); return err }()} {
			var refused *affiliate.Error
			if !errors.As(err, &refused) || refused.Reason != affiliate.ReasonValidation || refused.Violations[0].Field != tc.field {
				t.Errorf("%v: %v", tc.req, err)
			}
		}
	}
	if n := f.Count(`select count(*) from payout_methods`) + f.Count(`select count(*) from account_audit_log`); n != 0 {
		t.Errorf("%d rows were stored", n)
	}
}

// When equal calls run in parallel, only one of them changes and records something.
func TestPartnerAccount_EqualCallsInParallelAreRecordedOnce(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			_, err := f.service.SetPayoutMethod(f.liveContext(jane), &affiliatev1.SetPayoutMethodRequest{
				Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL, Account: proto.String("payme@mail.example"),
			})
			if err != nil {
				t.Error(err)
			}
			_, err = f.service.UpdatePartnerProfile(f.liveContext(jane), &affiliatev1.UpdatePartnerProfileRequest{
				Name: "Jane Doe", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := f.Count(`select count(*) from account_audit_log`); n != 2 {
		t.Errorf("%d audit records", n)
	}
	if n := f.Count(`select version from users where id = $1`, jane); n != 2 {
		t.Errorf("version %d", n)
	}
}
