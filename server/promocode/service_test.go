package promocode_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreatePromoCode(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	end := f.Now().Add(time.Hour)
	c, err := f.createCode(jane, "Summer20", func(r *affiliatev1.CreatePromoCodeRequest) {
		r.MaxRedemptions, r.ExpiresAt, r.SyncToProcessor = new(int64(5)), timestamppb.New(end), true
	})
	if err != nil {
		t.Fatal(err)
	}
	now := server.Timestamp(f.Now().Truncate(time.Millisecond))
	want := &affiliatev1.PromoCode{
		Id: c.GetId(), ProgramId: f.Program.String(), ParticipantId: jane.ID.String(), Code: "summer20", DiscountType: percentage, DiscountValue: 12.5,
		ProgramName: "P", PartnerName: "Jane", MaxRedemptions: new(int64(5)), ExpiresAt: timestamppb.New(end.Truncate(time.Millisecond)), Active: true,
		SyncToProcessor: true, SyncStatus: affiliatev1.SyncStatus_SYNC_STATUS_PENDING, CreatedAt: now, UpdatedAt: now,
	}
	if !proto.Equal(c, want) {
		t.Errorf("CreatePromoCode returned %v\nwant %v", c, want)
	}
	if got, err := f.getCode(c.GetId()); err != nil || !proto.Equal(got, want) {
		t.Errorf("GetPromoCode returned %v, error %v\nwant %v", got, err, want)
	}
	wantRecords := records{[]string{"promo_code.create"}, []string{"promo_code.created"}, 1}
	if got := f.recordsOf(c.GetId()); !reflect.DeepEqual(got, wantRecords) {
		t.Errorf("CreatePromoCode wrote the records %+v, want %+v", got, wantRecords)
	}
	object, _ := f.LastEvent(affiliate.EventPromoCodeCreated)
	for field, want := range map[string]any{"code": "summer20", "discount_value": 12.5, "version": 1.0} {
		if object[field] != want {
			t.Errorf("the event has %s = %v, want %v", field, object[field], want)
		}
	}
	if n := f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, jane.ID.String()); n != 1 {
		t.Errorf("%d jobs update the participant in the edge directory, want 1", n)
	}
	if n := f.Count(`select count(*) from audit_log where actor = $1`, f.Owner.String()); n != 1 {
		t.Errorf("the audit log names the owner %d times, want once", n)
	}
}

func TestCreatePromoCode_ValidatesDiscount(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	for name, tc := range map[string]struct {
		kind         affiliatev1.DiscountType
		value        float64
		currency     *string
		wantStored   int // basis points or minor units
		wantCurrency *string
		wantInvalid  string // field of the violation; empty if the discount is valid
	}{
		"0 percent":                    {percentage, 0, nil, 0, nil, ""},
		"100 percent":                  {percentage, 100, nil, 10_000, nil, ""},
		"percentage with two decimals": {percentage, 33.33, nil, 3333, nil, ""},
		"0.07 percent":                 {percentage, 0.07, nil, 7, nil, ""},
		"three decimals":               {percentage, 33.333, nil, 0, nil, "discount_value"},
		"more than 100 percent":        {percentage, 100.01, nil, 0, nil, "discount_value"},
		"negative":                     {percentage, -1, nil, 0, nil, servertest.Annotations},
		"not a number":                 {percentage, math.NaN(), nil, 0, nil, "discount_value"},
		"infinite":                     {fixed, math.Inf(1), nil, 0, nil, servertest.Annotations},
		"percentage with a currency":   {percentage, 10, new("EUR"), 0, nil, "currency"},
		"amount without a currency":    {fixed, 500, nil, 500, new("EUR"), ""},
		"amount with a currency":       {fixed, 500, new("jpy"), 500, new("JPY"), ""},
		"largest amount":               {fixed, 1e12, nil, 1e12, new("EUR"), ""},
		"half a cent":                  {fixed, 500.5, nil, 0, nil, "discount_value"},
		"unknown currency":             {fixed, 500, new("XXX"), 0, nil, "currency"},
		"no type":                      {0, 5, nil, 0, nil, servertest.Annotations},
	} {
		t.Run(name, func(t *testing.T) {
			code := strings.ReplaceAll(name, " ", "-")
			got, err := f.createCode(jane, code, func(r *affiliatev1.CreatePromoCodeRequest) {
				r.DiscountType, r.DiscountValue, r.Currency = tc.kind, new(tc.value), tc.currency
			})
			if tc.wantInvalid != "" {
				pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.wantInvalid)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(got)
			want.DiscountType, want.DiscountValue, want.Currency = tc.kind, tc.value, tc.wantCurrency
			if !proto.Equal(got, want) {
				t.Errorf("CreatePromoCode returned %v\nwant %v", got, want)
			}
			if stored := f.Count(`select discount_value from promo_codes where code = $1`, code); stored != tc.wantStored {
				t.Errorf("the stored discount is %d, want %d", stored, tc.wantStored)
			}
		})
	}
}

func TestCreatePromoCode_Refusals(t *testing.T) {
	f := newFixture(t)
	jane, erased := f.Join("Jane"), f.Join("Erased", pgtest.Row{"erased_at": f.Now()})
	elsewhere := f.NewParticipant(f.Scope, f.NewProgram(f.Scope), f.NewPartner("Jane"))
	unknown := pgtest.Participant{ID: affiliate.NewID[affiliate.ParticipantID](f.Now())}
	f.NewPromoCode(jane, "taken")
	unchanged := func(*affiliatev1.CreatePromoCodeRequest) {}

	for name, tc := range map[string]struct {
		participant pgtest.Participant
		code        string
		change      func(*affiliatev1.CreatePromoCodeRequest)
		reason      affiliate.Reason
		field       string
	}{
		"code in another case": {jane, "TAKEN", unchanged, affiliate.ReasonPromoCodeTaken, ""},
		"code with a space":    {jane, "two words", unchanged, affiliate.ReasonValidation, "code"},
		"control character":    {jane, "a\x01", unchanged, affiliate.ReasonValidation, "code"},
		"underscore at the processor": {
			jane, "spring_20", func(r *affiliatev1.CreatePromoCodeRequest) { r.SyncToProcessor = true }, affiliate.ReasonValidation, "code",
		},
		"invisible character":            {jane, "a\u200b", unchanged, affiliate.ReasonValidation, "code"},
		"empty code":                     {jane, "", unchanged, affiliate.ReasonValidation, servertest.Annotations},
		"code of 101 characters":         {jane, strings.Repeat("x", 101), unchanged, affiliate.ReasonValidation, servertest.Annotations},
		"participant of other programme": {elsewhere, "x", unchanged, affiliate.ReasonValidation, "participant_id"},
		"unknown participant":            {unknown, "x", unchanged, affiliate.ReasonValidation, "participant_id"},
		"participant with erased data":   {erased, "x", unchanged, affiliate.ReasonParticipantErased, ""},
		"expiry in the past": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = timestamppb.New(f.Now())
		}, affiliate.ReasonValidation, "expires_at"},
		"invalid expiry": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = &timestamppb.Timestamp{Seconds: math.MaxInt64}
		}, affiliate.ReasonValidation, "expires_at"},
		"limit of 0 redemptions": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.MaxRedemptions = new(int64(0))
		}, affiliate.ReasonValidation, servertest.Annotations},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.createCode(tc.participant, tc.code, tc.change)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
	if codes, total := f.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 1 || !slices.Equal(codes, []string{"taken"}) {
		t.Errorf("after refused calls the codes are %q, total %d, want only taken", codes, total)
	}
	archived := f.in(f.NewShop(affiliate.ModeLive, pgtest.Row{"status": program.Archived}))
	_, err := archived.createCode(archived.Join("Jane"), "late")
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
}

func TestCreatePromoCode_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	participants := []pgtest.Participant{f.Join("A"), f.Join("B"), f.Join("C"), f.Join("D"), f.Join("E")}
	results := make(chan error, 50)
	for i := range cap(results) {
		go func() {
			_, err := f.createCode(participants[i%len(participants)], []string{"SUMMER", "Summer"}[i%2])
			results <- err
		}()
	}
	created := 0
	for range cap(results) {
		if err := <-results; err == nil {
			created++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonPromoCodeTaken)
		}
	}
	if created != 1 {
		t.Errorf("%d requests created the code, want 1", created)
	}
	if codes, total := f.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 1 || !slices.Equal(codes, []string{"summer"}) {
		t.Errorf("ListPromoCodes returned %q, total %d, want only summer", codes, total)
	}
	if types, _ := f.Events(); !slices.Equal(types, []string{"promo_code.created"}) {
		t.Errorf("the events are %q, want one promo_code.created", types)
	}
	if n := f.Count(`select count(*) from audit_log`); n != 1 {
		t.Errorf("the audit log has %d records, want 1", n)
	}
}

func TestUpdatePromoCode(t *testing.T) {
	f := newFixture(t)
	id := f.NewPromoCode(f.Join("Jane"), "may").ID.String()
	f.Exec(`update promo_codes set redemptions = 7`)
	want, err := f.getCode(id)
	if err != nil {
		t.Fatal(err)
	}
	requireUpdate := func(req *affiliatev1.UpdatePromoCodeRequest) {
		t.Helper()
		if got, err := f.updateCode(id, req); err != nil || !proto.Equal(got, want) {
			t.Fatalf("UpdatePromoCode with %v returned %v, error %v\nwant %v", req, got, err, want)
		}
	}
	requireRecords := func(want records) {
		t.Helper()
		if got := f.recordsOf(id); !reflect.DeepEqual(got, want) {
			t.Errorf("the records are %+v, want %+v", got, want)
		}
	}

	// A code that reached its limit or expired stays active, and no event is published.
	f.clock.Advance(time.Minute)
	past := timestamppb.New(f.Now().Add(-time.Hour).Truncate(time.Millisecond))
	want.MaxRedemptions, want.ExpiresAt = new(int64(3)), past
	want.SyncToProcessor, want.SyncStatus = true, affiliatev1.SyncStatus_SYNC_STATUS_PENDING
	want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdatePromoCodeRequest{
		UpdateMask: mask("max_redemptions", "expires_at", "sync_to_processor"), MaxRedemptions: new(int64(3)), ExpiresAt: past, SyncToProcessor: true,
	})
	updated := records{[]string{"promo_code.update"}, nil, 1}
	requireRecords(updated)

	// An update that changes nothing is not recorded.
	f.clock.Advance(time.Minute)
	requireUpdate(&affiliatev1.UpdatePromoCodeRequest{})
	requireUpdate(&affiliatev1.UpdatePromoCodeRequest{
		UpdateMask: mask("active", "max_redemptions", "sync_to_processor"), Active: true, MaxRedemptions: new(int64(3)), SyncToProcessor: true,
	})
	requireRecords(updated)

	// Fields that the mask names and the request does not contain are cleared.
	want.Active, want.MaxRedemptions, want.ExpiresAt = false, nil, nil
	want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active", "max_redemptions", "expires_at")})
	object, previous := f.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["active"] != false || object["version"] != 3.0 {
		t.Errorf("the event has active = %v, version = %v, want false, 3", object["active"], object["version"])
	}
	if previous["active"] != true || previous["max_redemptions"] != 3.0 || len(previous) != 3 {
		t.Errorf("the event has the previous values %v, want active = true, max_redemptions = 3 and expires_at", previous)
	}

	// When a code is activated again, no event is published.
	f.clock.Advance(time.Minute)
	want.Active, want.UpdatedAt = true, server.Timestamp(f.Now().Truncate(time.Millisecond))
	requireUpdate(&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true})
	requireRecords(records{
		[]string{"promo_code.update", "promo_code.update", "promo_code.update"},
		[]string{"promo_code.deactivated"},
		3,
	})
}

func TestUpdatePromoCode_Refusals(t *testing.T) {
	f := newFixture(t)
	id := f.NewPromoCode(f.Join("Jane"), "may_20").ID.String()
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdatePromoCodeRequest
		field string
	}{
		"code":                  {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("code")}, "update_mask"},
		"field not in the mask": {&affiliatev1.UpdatePromoCodeRequest{MaxRedemptions: new(int64(1))}, "update_mask"},
		"invalid timestamp": {&affiliatev1.UpdatePromoCodeRequest{
			UpdateMask: mask("expires_at"), ExpiresAt: &timestamppb.Timestamp{Nanos: -1},
		}, "expires_at"},
		"underscore at the processor": {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("sync_to_processor"), SyncToProcessor: true}, "sync_to_processor"},
		"limit of 0 redemptions":      {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("max_redemptions"), MaxRedemptions: new(int64(0))}, servertest.Annotations},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.updateCode(id, tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}
	// A code of an archived programme can still be deactivated.
	f.Exec(`update programs set status = 'archived'`)
	if got, err := f.updateCode(id, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil || got.GetActive() {
		t.Errorf("UpdatePromoCode returned %v, error %v, want a code that is not active", got, err)
	}
	f.Exec(`update participants set erased_at = $1`, f.Now())
	_, err := f.updateCode(id, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}

// A code is updated while conversions redeem it. No update and no redemption is lost.
func TestUpdatePromoCode_InParallelWithRedemptionsKeepsBoth(t *testing.T) {
	f := newFixture(t)
	id := f.NewPromoCode(f.Join("Jane"), "may").ID.String()
	const n = 40
	results := make(chan error, n)
	for i := range n {
		go func() {
			_, err := f.updateCode(id, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("max_redemptions"), MaxRedemptions: new(int64(i) + 1)})
			results <- err
		}()
	}
	for range n {
		f.Exec(`update promo_codes set redemptions = redemptions + 1`)
	}
	for range n {
		if err := <-results; err != nil {
			t.Errorf("UpdatePromoCode: %v", err)
		}
	}
	if got := f.Count(`select redemptions from promo_codes`); got != n {
		t.Errorf("the code has %d redemptions, want %d", got, n)
	}
	if got := f.Count(`select version from promo_codes`); got != n+1 {
		t.Errorf("the code has version %d, want %d", got, n+1)
	}
}

func TestDeletePromoCode_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	id := f.NewPromoCode(jane, "may").ID.String()
	f.clock.Advance(time.Minute)
	results := make(chan error, 10)
	for range cap(results) {
		go func() { results <- f.deleteCode(id) }()
	}
	deleted := 0
	for range cap(results) {
		if err := <-results; err == nil {
			deleted++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		}
	}
	if deleted != 1 {
		t.Errorf("%d requests deleted the code, want 1", deleted)
	}
	want := records{[]string{"promo_code.delete"}, []string{"promo_code.deactivated"}, 1}
	if got := f.recordsOf(id); !reflect.DeepEqual(got, want) {
		t.Errorf("the records are %+v, want %+v", got, want)
	}
	object, previous := f.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["active"] != false || object["version"] != 2.0 || previous["active"] != true {
		t.Errorf("the event has active = %v after %v, version %v, want false after true, version 2", object["active"], previous["active"], object["version"])
	}
	if codes, total := f.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 0 || len(codes) != 0 {
		t.Errorf("after the deletion the codes are %q, total %d, want none", codes, total)
	}
	if _, err := f.createCode(jane, "MAY"); err != nil {
		t.Errorf("CreatePromoCode with the code of a deleted promo code: %v", err)
	}
}

// If a code was deactivated earlier, its deletion publishes no second event. The code can
// be deleted after the participant's data was erased.
func TestDeletePromoCode_OfInactiveCode(t *testing.T) {
	f := newFixture(t)
	id := f.NewPromoCode(f.Join("Jane"), "may").ID.String()
	f.clock.Advance(time.Minute)
	if _, err := f.updateCode(id, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update participants set erased_at = $1`, f.Now())
	f.clock.Advance(time.Minute)
	if err := f.deleteCode(id); err != nil {
		t.Fatal(err)
	}
	if types, _ := f.Events(id); !slices.Equal(types, []string{"promo_code.deactivated"}) {
		t.Errorf("the events are %q, want one promo_code.deactivated", types)
	}
}

func TestPromoCodeChanges_FailWithoutTheirAuditRecord(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	id := f.NewPromoCode(jane, "may").ID.String()
	before, err := f.getCode(id)
	if err != nil {
		t.Fatal(err)
	}
	f.Exec(`revoke insert on audit_log from tributary_app`)
	_, createErr := f.createCode(jane, "june")
	_, updateErr := f.updateCode(id, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")})
	for call, err := range map[string]error{"CreatePromoCode": createErr, "UpdatePromoCode": updateErr, "DeletePromoCode": f.deleteCode(id)} {
		if err == nil {
			t.Errorf("%s succeeded without an audit record", call)
		}
	}
	if after, err := f.getCode(id); err != nil || !proto.Equal(after, before) {
		t.Errorf("after failed changes the code is %v, error %v, want %v", after, err, before)
	}
	if codes, total := f.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 1 || !slices.Equal(codes, []string{"may"}) {
		t.Errorf("after failed changes the codes are %q, total %d, want only may", codes, total)
	}
	if types, _ := f.Events(); len(types) != 0 {
		t.Errorf("the events are %q, want none", types)
	}
}
