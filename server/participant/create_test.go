package participant_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

type createRequest = affiliatev1.CreateParticipantRequest

const (
	awaited  = affiliatev1.PartnerConsent_PARTNER_CONSENT_AWAITED
	declined = affiliatev1.PartnerConsent_PARTNER_CONSENT_DECLINED
)

func (f *fixture) create(req *createRequest) (*affiliatev1.Participant, error) {
	if req.ProgramId == "" {
		req.ProgramId = f.Program.String()
	}
	if req.Name == "" {
		req.Name = "Jane Doe"
	}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.CreateParticipant(f.asMember(affiliate.RoleManager), req)
}

func TestCreateParticipant_RejectsNameWithLink(t *testing.T) {
	f := newFixture(t)
	_, err := f.create(&createRequest{Email: "jane@example.com", Name: "www.evil.example"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "name")
}

func (f *fixture) mustCreate(req *createRequest) *affiliatev1.Participant {
	f.Helper()
	p, err := f.create(req)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *fixture) acceptOffer(partner affiliate.UserID) (*affiliatev1.Participant, error) {
	return f.service.AcceptParticipation(f.asPartner(partner), &affiliatev1.AcceptParticipationRequest{ProgramId: f.Program.String()})
}

func (f *fixture) declineOffer(partner affiliate.UserID) (*affiliatev1.Participant, error) {
	return f.service.DeclineParticipation(f.asPartner(partner), &affiliatev1.DeclineParticipationRequest{ProgramId: f.Program.String()})
}

// sentToken returns the token in the only mail of a kind to an address.
func (f *fixture) sentToken(kind notification.MailKind, address string) string {
	f.Helper()
	f.WantCount(1, "mails of kind "+string(kind), `select count(*) from mails where kind = $1 and recipient = $2`, kind, address)
	var id notification.MailID
	var secret []byte
	if err := f.SQL.QueryRow(f.Context(), `select id, secret from mails where kind = $1 and recipient = $2`, kind, address).Scan(&id, &secret); err != nil {
		f.Fatal(err)
	}
	token, err := servertest.Seal(f).OpenMailToken(id, secret)
	if err != nil {
		f.Fatal(err)
	}
	return token
}

func (f *fixture) wantMails(want int, address string) {
	f.Helper()
	f.WantCount(want, "mails to "+address, `select count(*) from mails where recipient = $1`, address)
}

func TestCreateParticipant_MakesAnAccount(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	got := f.mustCreate(&createRequest{
		Email: "Jane@Example.com", ExternalId: new("cust-17"), ReferralCode: new("Jane-D"), GroupId: &group,
	})
	at := server.Timestamp(f.changeTime())
	want := &affiliatev1.Participant{
		Id: got.Id, ProgramId: f.Program.String(), PartnerId: got.PartnerId, ProgramName: "P", Currency: "EUR", PartnerName: "Jane Doe", PartnerEmail: "jane@example.com",
		Status: approved, ReferralCode: "jane-d", ExternalId: new("cust-17"), GroupId: &group,
		AppliedAt: at, ApprovedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	servertest.WantMessage(t, "CreateParticipant", got, want)
	servertest.WantMessage(t, "GetParticipant", f.get(got.Id), want)
	f.WantCount(1, "unclaimed accounts without a known password", `
		select count(*) from users where id = $1 and kind = 'partner' and email = 'jane@example.com' and name = 'Jane Doe'
			and unclaimed and password_hash = $2 and email_verified_at is null`, got.GetPartnerId(), unusableHash)
	f.wantEvents(nil, "link.created", "participant.approved")
	f.wantAudits(1, "participant.create", f.Owner)
	f.WantCount(0, "audit records with the name or the external id", `select count(*) from audit_log l where l::text like '%Jane Doe%' or l::text like '%cust-17%'`)
	f.WantCount(1, "records in the log of the account", `select count(*) from account_audit_log where user_id = $1 and action = 'account.create'`, got.GetPartnerId())
	f.checkCounts()

	f.WantCount(1, "claim mails in the log of the workspace", `select count(*) from mails where kind = 'partner_claim' and workspace_id = $1`, f.Scope.Workspace)
	f.wantMails(1, "jane@example.com")
	token := f.sentToken(notification.MailPartnerClaim, "jane@example.com")
	f.WantCount(1, "tokens that set the password within 7 days", `
		select count(*) from email_tokens where digest = sha256($1::bytea) and user_id = $2 and purpose = 'reset' and expires_at = $3`,
		[]byte(token), got.GetPartnerId(), f.changeTime().AddDate(0, 0, 7))
}

func TestCreateParticipant_WithoutMail(t *testing.T) {
	f := newFixture(t)
	p := f.mustCreate(&createRequest{Email: "jane@example.com", SendInvite: new(false)})
	f.wantMails(0, "jane@example.com")
	f.WantCount(0, "e-mail tokens", `select count(*) from email_tokens where user_id = $1`, p.GetPartnerId())

	// Another merchant's offer sends both: the token of the account and the invitation.
	other := f.inNewProgram()
	offered := other.mustCreate(&createRequest{Email: "jane@example.com"})
	if offered.Status != pending || offered.PartnerConsent != awaited {
		t.Errorf("the second participation is %v, %v; want pending and awaited", offered.Status, offered.PartnerConsent)
	}
	f.wantMails(2, "jane@example.com")
	f.WantCount(0, "claim mails in the log of a workspace", `select count(*) from mails where kind = 'partner_claim' and workspace_id is not null`)
	f.sentToken(notification.MailPartnerClaim, "jane@example.com")
	f.sentToken(notification.MailParticipantInvite, "jane@example.com")
}

// The owner of an account decides. Until then, the merchant sees only what it gave.
func TestCreateParticipant_OfAnExistingAccount(t *testing.T) {
	f := newFixture(t)
	jane := f.NewPartner("Jane Real", pgtest.Row{"email": "jane@example.com"})
	got := f.mustCreate(&createRequest{Email: "jane@example.com", Name: "Given Name", ExternalId: new("cust-17")})
	at := server.Timestamp(f.changeTime())
	want := &affiliatev1.Participant{
		Id: got.Id, ProgramId: f.Program.String(), ProgramName: "P", Currency: "EUR", PartnerName: "Given Name", PartnerEmail: "jane@example.com",
		Status: pending, PartnerConsent: awaited, ReferralCode: "given-name", ExternalId: new("cust-17"),
		AppliedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	servertest.WantMessage(t, "CreateParticipant", got, want)
	servertest.WantMessage(t, "GetParticipant", f.get(got.Id), want)
	f.WantCount(0, "texts of the account in the audit log and in events", `
		select (select count(*) from audit_log l where l::text like '%Jane Real%' or l::text like '%' || $1 || '%')
			+ (select count(*) from events e where convert_from(e.body, 'UTF8') like '%Jane Real%' or convert_from(e.body, 'UTF8') like '%' || $1 || '%')`, jane.String())
	f.wantEvents(nil, "link.created")
	f.WantCount(1, "notifications of the partner", `select count(*) from notifications where feed_id = $1 and type = 'participant.offered'`, jane)
	f.WantCount(0, "notifications of the merchant", `select count(*) from notifications where feed_id = $1`, f.Scope.Workspace)

	// A core of the version before would not check the consent.
	if _, err := f.SQL.Exec(t.Context(), `update participants set status = 'approved' where id = $1`, got.Id); err == nil {
		t.Error("the database accepts an approval without the consent")
	}
	for _, verb := range []string{"approve", "suspend", "reinstate"} {
		_, err := f.move(f.asOwner(), verb, f.Program.String(), got.Id, nil)
		pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	}
	_, err := f.token(got.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	_, err = f.acceptOffer(f.NewPartner("Bob"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)

	f.clock.Advance(time.Hour)
	mine, err := f.acceptOffer(jane)
	if err != nil {
		t.Fatal(err)
	}
	at = server.Timestamp(f.changeTime())
	want.PartnerId, want.PartnerName, want.Status, want.PartnerConsent = new(jane.String()), "Jane Real", approved, 0
	want.AppliedAt, want.ApprovedAt, want.UpdatedAt = at, at, at
	servertest.WantMessage(t, "GetParticipant after the consent", f.get(got.Id), want)
	want.ExternalId = nil
	servertest.WantMessage(t, "AcceptParticipation", mine, want)
	f.wantEvents([]string{got.Id}, "participant.approved")
	f.WantCount(1, "notifications about the approval", `select count(*) from notifications where feed_id = $1 and type = 'participant.approved'`, jane)
	f.wantOpenInvites(affiliate.RoleOwner)
	f.checkCounts()
	_, err = f.acceptOffer(jane)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	_, err = f.declineOffer(jane)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
}

func TestCreateParticipant_OfferIsAcceptedByTheMailedToken(t *testing.T) {
	f := newFixture(t, pgtest.Row{"terms_url": "https://shop.example/terms"})
	jane := f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	offered := f.mustCreate(&createRequest{Email: "jane@example.com"})
	token := f.sentToken(notification.MailParticipantInvite, "jane@example.com")
	_, err := f.accept(jane, token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	got, err := f.service.AcceptParticipantInvite(f.asPartner(jane), &affiliatev1.AcceptParticipantInviteRequest{Token: token, AcceptTerms: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Id != offered.Id || got.Status != approved || got.PartnerConsent != 0 || got.TermsAcceptedAt == nil {
		t.Errorf("AcceptParticipantInvite returned %v, want the approved participant %s with accepted terms", got, offered.Id)
	}
	f.checkCounts()
}

// A partner who has declined can accept later. The merchant cannot approve the
// participation in either case.
func TestDeclineParticipation(t *testing.T) {
	f := newFixture(t)
	jane := f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	id := f.mustCreate(&createRequest{Email: "jane@example.com"}).Id
	f.clock.Advance(time.Minute)
	got, err := f.declineOffer(jane)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != rejected || got.PartnerConsent != declined || !proto.Equal(got.RejectedAt, server.Timestamp(f.changeTime())) {
		t.Errorf("DeclineParticipation returned %v", got)
	}
	f.wantEvents([]string{id}, "participant.rejected")
	f.WantCount(0, "entries of the audit log with the id of the account", `select count(*) from audit_log l where l::text like '%' || $1 || '%'`, jane.String())
	f.WantCount(1, "entries about the refusal", `select count(*) from audit_log where action = 'participant.decline' and actor = 'system' and ip_prefix is null`)
	f.WantCount(0, "notifications of a rejection", `select count(*) from notifications where type = 'participant.rejected'`)
	_, err = f.move(f.asOwner(), "approve", f.Program.String(), id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	_, err = f.declineOffer(jane)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	f.checkCounts()
	if got, err = f.acceptOffer(jane); err != nil || got.Status != approved || got.RejectedAt != nil {
		t.Errorf("AcceptParticipation after the refusal returned %v, %v", got, err)
	}
	f.checkCounts()
}

// The merchant withdraws the offer with reject. The partner cannot accept it any more.
func TestCreateParticipant_OfferIsWithdrawn(t *testing.T) {
	f := newFixture(t)
	jane := f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	id := f.mustCreate(&createRequest{Email: "jane@example.com"}).Id
	f.mustMove("reject", id)
	_, err := f.acceptOffer(jane)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	_, err = f.accept(jane, f.sentToken(notification.MailParticipantInvite, "jane@example.com"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	_, err = f.move(f.asOwner(), "approve", f.Program.String(), id, nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
	f.WantCount(0, "notifications of a rejection", `select count(*) from notifications where type = 'participant.rejected'`)
}

// The names and addresses that a partner sets later stay hidden until the partner accepts.
func TestCreateParticipant_HidesChangesOfTheAccount(t *testing.T) {
	f := newFixture(t)
	jane := f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	id := f.mustCreate(&createRequest{Email: "jane@example.com"}).Id
	rename := &affiliatev1.UpdatePartnerProfileRequest{Name: "New Name", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}}
	if _, err := partner.New(partner.Config{DB: f.DB, Now: f.Now}).UpdatePartnerProfile(f.asPartner(jane), rename); err != nil {
		t.Fatal(err)
	}
	if got := f.get(id).PartnerName; got != "Jane Doe" {
		t.Errorf("the participant has the name %q, want the given name", got)
	}
	if _, err := f.acceptOffer(jane); err != nil {
		t.Fatal(err)
	}
	if got := f.get(id).PartnerName; got != "New Name" {
		t.Errorf("the accepted participant has the name %q, want the name of the account", got)
	}
}

func TestCreateParticipant_Refusals(t *testing.T) {
	f := newFixture(t)
	jane := f.mustCreate(&createRequest{Email: "jane@example.com", ExternalId: new("cust-17"), ReferralCode: new("jane")})
	archived := f.inNewProgram(pgtest.Row{"status": "archived"}).Program.String()
	otherGroup := f.NewGroup(f.Scope, f.inNewProgram().Program, "Other").ID.String()
	for name, tc := range map[string]struct {
		req    *createRequest
		reason affiliate.Reason
		field  string
	}{
		"the same address":        {&createRequest{Email: "JANE@example.com"}, affiliate.ReasonApplicationDuplicate, ""},
		"address and external id": {&createRequest{Email: "jane@example.com", ExternalId: new("cust-17")}, affiliate.ReasonApplicationDuplicate, ""},
		"a taken code":            {&createRequest{Email: "x@example.com", ReferralCode: new("JANE")}, affiliate.ReasonReferralCodeTaken, ""},
		"a taken external id":     {&createRequest{Email: "x@example.com", ExternalId: new("cust-17")}, affiliate.ReasonExternalIDTaken, ""},
		"a group of another":      {&createRequest{Email: "x@example.com", GroupId: &otherGroup}, affiliate.ReasonNotFound, ""},
		"an unknown programme":    {&createRequest{Email: "x@example.com", ProgramId: jane.Id}, affiliate.ReasonNotFound, ""},
		"an archived programme":   {&createRequest{Email: "x@example.com", ProgramId: archived}, affiliate.ReasonProgramStateInvalid, ""},
		"a reserved code":         {&createRequest{Email: "x@example.com", ReferralCode: new("admin")}, affiliate.ReasonValidation, "referral_code"},
		"an address with a name":  {&createRequest{Email: "Jane <jane@example.com>"}, affiliate.ReasonValidation, "email"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.create(tc.req)
			if tc.field != "" {
				pgtest.RequireRefusal(t, err, tc.reason, tc.field)
				return
			}
			pgtest.RequireRefusal(t, err, tc.reason)
		})
	}
	f.WantCount(1, "partner accounts", `select count(*) from users where kind = 'partner'`)
	f.wantMails(0, "x@example.com")
	f.checkCounts()
}

func TestCreateParticipant_InParallel(t *testing.T) {
	t.Run("the same address", func(t *testing.T) {
		f := newFixture(t)
		requireOneSuccess(t, inParallel(20, func(int) error {
			_, err := f.create(&createRequest{Email: "jane@example.com"})
			return err
		}), affiliate.ReasonApplicationDuplicate)
		f.WantCount(1, "accounts", `select count(*) from users where email = 'jane@example.com'`)
		f.WantCount(1, "participants", `select count(*) from participants`)
		f.wantMails(1, "jane@example.com")
		f.checkCounts()
	})
	t.Run("the same external id", func(t *testing.T) {
		f := newFixture(t)
		requireOneSuccess(t, inParallel(20, func(i int) error {
			_, err := f.create(&createRequest{Email: fmt.Sprintf("jane%d@example.com", i), ExternalId: new("cust-17")})
			return err
		}), affiliate.ReasonExternalIDTaken)
		f.WantCount(1, "accounts", `select count(*) from users where kind = 'partner'`)
		f.WantCount(1, "participants", `select count(*) from participants`)
		f.checkCounts()
	})
	t.Run("the same address in two programmes", func(t *testing.T) {
		f := newFixture(t)
		programs := []*fixture{f, f.inNewProgram()}
		for _, err := range inParallel(2, func(i int) error {
			_, err := programs[i].create(&createRequest{Email: "jane@example.com"})
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		f.WantCount(1, "accounts", `select count(*) from users where email = 'jane@example.com'`)
		f.WantCount(1, "approved participants", `select count(*) from participants where status = 'approved' and partner_consent is null`)
		f.WantCount(1, "participants that wait", `select count(*) from participants where status = 'pending' and partner_consent = 'awaited'`)
	})
}

func TestExternalID_IsEditedAndFiltered(t *testing.T) {
	f := newFixture(t)
	ada, bob := f.mustApply("Ada").Id, f.mustApply("Bob").Id
	if got := f.mustUpdate(ada, &updateRequest{ExternalId: new("cust-1")}, "external_id"); got.GetExternalId() != "cust-1" {
		t.Errorf("UpdateParticipant returned the external id %q", got.GetExternalId())
	}
	_, err := f.update(bob, &updateRequest{ExternalId: new("cust-1")}, "external_id")
	pgtest.RequireRefusal(t, err, affiliate.ReasonExternalIDTaken)
	f.mustUpdate(bob, &updateRequest{ExternalId: new("CUST-1")}, "external_id") // the case matters
	other := f.inNewProgram()
	other.mustUpdate(other.mustApply("Cyd").Id, &updateRequest{ExternalId: new("cust-1")}, "external_id")

	list := func(id, search string) *affiliatev1.ListParticipantsResponse {
		t.Helper()
		got, err := f.service.ListParticipants(f.asOwner(), &affiliatev1.ListParticipantsRequest{
			ProgramId: f.Program.String(), ExternalId: &id, Search: &search,
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, tc := range []struct {
		id, search string
		want       []string
	}{
		{"cust-1", "", []string{ada}}, {"CUST-1", "", []string{bob}}, {"cust", "", nil}, {"cust-1", "a", []string{ada}}, {"cust-1", "b", nil},
	} {
		got := list(tc.id, tc.search)
		var ids []string
		for _, p := range got.Data {
			ids = append(ids, p.Id)
		}
		if fmt.Sprint(ids) != fmt.Sprint(tc.want) || got.Total != int64(len(tc.want)) {
			t.Errorf("the filter %q with the search %q returned %v and the total %d, want %v", tc.id, tc.search, ids, got.Total, tc.want)
		}
	}
	f.WantCount(0, "audit records with the external id", `select count(*) from audit_log l where l::text ilike '%cust-1%'`)
	if got := f.mustUpdate(ada, &updateRequest{}, "external_id"); got.ExternalId != nil {
		t.Errorf("the cleared external id is %q", *got.ExternalId)
	}
	f.mustUpdate(bob, &updateRequest{ExternalId: new("cust-1")}, "external_id")
}

func (f *fixture) token(id string) (*affiliatev1.ParticipantToken, error) {
	return f.service.CreateParticipantToken(f.asOwner(), &affiliatev1.CreateParticipantTokenRequest{ProgramId: f.Program.String(), ParticipantId: id})
}

func TestCreateParticipantToken_OnlyForApprovedParticipants(t *testing.T) {
	f := newFixture(t)
	for _, status := range statuses {
		p := f.Join("Partner "+status, pgtest.Row{"status": status})
		got, err := f.token(p.ID.String())
		if status != "approved" {
			pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantState)
			continue
		}
		if err != nil || got.Token == "" || !got.ExpiresAt.AsTime().Equal(f.Now().Add(15*time.Minute).Truncate(time.Second)) {
			t.Errorf("CreateParticipantToken returned %v, %v", got, err)
		}
	}
	erased := f.Join("Erased", pgtest.Row{"erased_at": f.Now()})
	_, err := f.token(erased.ID.String())
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	other := f.inNewProgram().mustApply("Dan")
	_, err = f.token(other.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestCreateParticipant_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	create := func(key, email string) (*affiliatev1.Participant, bool, error) {
		f.clock.Advance(time.Second)
		ctx, transport := servertest.WithTransport(f.asMember(affiliate.RoleManager), key)
		p, err := f.service.CreateParticipant(ctx, &createRequest{ProgramId: f.Program.String(), Email: email, Name: "Jane Doe"})
		return p, transport.Replayed(), err
	}
	first, replayed, err := create("k-1", "jane@example.com")
	if err != nil || replayed {
		t.Fatalf("the first request returned %v, replayed %t", err, replayed)
	}
	// The response is the first one even if the participant has changed.
	f.mustMove("suspend", first.Id)
	errs := inParallel(5, func(int) error {
		again, replayed, err := create("k-1", "jane@example.com")
		if err == nil && (!replayed || !proto.Equal(again, first)) {
			t.Errorf("the repeated request returned %v, replayed %t; want the first response %v", again, replayed, first)
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	_, _, err = create("k-1", "john@example.com")
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	f.wantMails(1, "jane@example.com")
	f.WantCount(1, "participants", `select count(*) from participants`)
	// A refused request leaves no key.
	_, _, err = create("k-2", "jane@example.com")
	pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	if _, replayed, err := create("k-2", "john@example.com"); err != nil || replayed {
		t.Errorf("the key of a refused request: %v, replayed %t", err, replayed)
	}
}
