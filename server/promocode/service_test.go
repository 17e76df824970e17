package promocode_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	percentage = affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE
	fixed      = affiliatev1.DiscountType_DISCOUNT_TYPE_FIXED
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func TestCreatePromoCode(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	end := w.now.Add(time.Hour)
	c, err := w.create(jane, "Summer20", func(r *affiliatev1.CreatePromoCodeRequest) {
		r.MaxRedemptions, r.ExpiresAt, r.SyncToProcessor = proto.Int64(5), timestamppb.New(end), true
	})
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(w.now.Truncate(time.Millisecond))
	want := &affiliatev1.PromoCode{
		Id: c.GetId(), ProgramId: w.program.String(), ParticipantId: jane, Code: "summer20", DiscountType: percentage, DiscountValue: 12.5,
		MaxRedemptions: proto.Int64(5), ExpiresAt: timestamppb.New(end.Truncate(time.Millisecond)), Active: true,
		SyncToProcessor: true, SyncStatus: affiliatev1.SyncStatus_SYNC_STATUS_PENDING, CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(c, want) {
		t.Errorf("created %v\nwant %v", c, want)
	}
	read, err := w.service.GetPromoCode(w.asLiveMerchant(), &affiliatev1.GetPromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	actions, events, jobs := w.trace(c.GetId())
	if !slices.Equal(actions, []string{"promo_code.create"}) || !slices.Equal(events, []string{"promo_code.created"}) || jobs != 1 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
	if object, _ := w.LastEvent(affiliate.EventPromoCodeCreated); object["code"] != "summer20" || object["discount_value"] != 12.5 || object["version"] != 1.0 {
		t.Errorf("event %v", object)
	}
	if w.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, jane) != 1 ||
		w.Count(`select count(*) from audit_log where actor = $1`, w.user.String()) != 1 {
		t.Error("the job for the edge directory or the audit record is missing")
	}
}

func TestCreatePromoCode_Discounts(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	for name, tc := range map[string]struct {
		kind     affiliatev1.DiscountType
		value    float64
		currency *string
		stored   int64
		want     *string // expected currency
		field    string  // field of the expected violation; empty if the discount is valid
	}{
		"zero":                       {percentage, 0, nil, 0, nil, ""},
		"100 percent":                {percentage, 100, nil, 10_000, nil, ""},
		"two decimals":               {percentage, 33.33, nil, 3333, nil, ""},
		"0.07 percent":               {percentage, 0.07, nil, 7, nil, ""},
		"three decimals":             {percentage, 33.333, nil, 0, nil, "discount_value"},
		"too much":                   {percentage, 100.01, nil, 0, nil, "discount_value"},
		"negative":                   {percentage, -1, nil, 0, nil, "annotations"},
		"not a number":               {percentage, math.NaN(), nil, 0, nil, "discount_value"},
		"infinite":                   {fixed, math.Inf(1), nil, 0, nil, "annotations"},
		"percentage with a currency": {percentage, 10, proto.String("EUR"), 0, nil, "currency"},
		"programme's currency":       {fixed, 500, nil, 500, proto.String("EUR"), ""},
		"its own currency":           {fixed, 500, proto.String("jpy"), 500, proto.String("JPY"), ""},
		"largest amount":             {fixed, 1e12, nil, 1e12, proto.String("EUR"), ""},
		"half a cent":                {fixed, 500.5, nil, 0, nil, "discount_value"},
		"unknown currency":           {fixed, 500, proto.String("XXX"), 0, nil, "currency"},
		"no type":                    {0, 5, nil, 0, nil, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			code := strings.ReplaceAll(name, " ", "-")
			c, err := w.create(jane, code, func(r *affiliatev1.CreatePromoCodeRequest) {
				r.DiscountType, r.DiscountValue, r.Currency = tc.kind, proto.Float64(tc.value), tc.currency
			})
			if tc.field != "" {
				pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
				return
			}
			if err != nil || c.GetDiscountValue() != tc.value || c.GetDiscountType() != tc.kind || c.GetCurrency() != deref(tc.want) || (c.Currency == nil) != (tc.want == nil) {
				t.Fatalf("%v, %v", c, err)
			}
			if w.Count(`select count(*) from promo_codes where code = $1 and discount_value = $2`, code, tc.stored) != 1 {
				t.Error("a wrong value is stored")
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestCreatePromoCode_Refusals(t *testing.T) {
	w := newWorld(t)
	jane, erased := w.newParticipant(), w.newParticipant()
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, erased)
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.join(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"))
	w.mustCreate(jane, "Taken")

	for name, tc := range map[string]struct {
		participant, code string
		change            func(*affiliatev1.CreatePromoCodeRequest)
		reason            affiliate.Reason
		field             string
	}{
		"taken in another case":       {jane, "TAKEN", nil, affiliate.ReasonPromoCodeTaken, ""},
		"with a space":                {jane, "two words", nil, affiliate.ReasonValidation, "code"},
		"with a control character":    {jane, "a\x01", nil, affiliate.ReasonValidation, "code"},
		"with an invisible character": {jane, "a\u200b", nil, affiliate.ReasonValidation, "code"},
		"empty":                       {jane, "", nil, affiliate.ReasonValidation, "annotations"},
		"too long":                    {jane, strings.Repeat("x", 101), nil, affiliate.ReasonValidation, "annotations"},
		"of another programme":        {elsewhere, "x", nil, affiliate.ReasonValidation, "participant_id"},
		"of an unknown participant":   {affiliate.NewID[affiliate.Participant](w.now).String(), "x", nil, affiliate.ReasonValidation, "participant_id"},
		"of an erased participant":    {erased, "x", nil, affiliate.ReasonParticipantErased, ""},
		"expired": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = timestamppb.New(w.now)
		}, affiliate.ReasonValidation, "expires_at"},
		"with an invalid expiry": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = &timestamppb.Timestamp{Seconds: math.MaxInt64}
		}, affiliate.ReasonValidation, "expires_at"},
		"without redemptions": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.MaxRedemptions = proto.Int64(0)
		}, affiliate.ReasonValidation, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.create(tc.participant, tc.code, tc.change)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
	if w.Count(`select count(*) from promo_codes`) != 1 || w.Count(`select sum(n) from list_counts where what = 'promo_codes'`) != 1 {
		t.Error("a refused code was stored")
	}
	w.Exec(`update programs set status = 'archived'`)
	_, err := w.create(jane, "late", nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
}

func TestCreatePromoCode_SameCodeInParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	participants := []string{w.newParticipant(), w.newParticipant(), w.newParticipant(), w.newParticipant(), w.newParticipant()}
	results := make(chan error, 50)
	for i := range cap(results) {
		go func() {
			code := "Summer"
			if i%2 == 0 {
				code = "SUMMER"
			}
			_, err := w.create(participants[i%len(participants)], code, nil)
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
	if codes, total := w.listCodes(&affiliatev1.ListPromoCodesRequest{}); created != 1 || total != 1 || !slices.Equal(codes, []string{"summer"}) {
		t.Errorf("created %d, list %v, total %d", created, codes, total)
	}
	if w.Count(`select count(*) from events`) != 1 || w.Count(`select count(*) from audit_log`) != 1 {
		t.Error("a refused request has an event or an audit record")
	}
}

func TestUpdatePromoCode(t *testing.T) {
	w := newWorld(t)
	c := w.mustCreate(w.newParticipant(), "may")
	past := timestamppb.New(w.now.Add(-time.Hour).Truncate(time.Millisecond))
	w.Exec(`update promo_codes set redemptions = 7`)
	w.advance()
	got, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{
		UpdateMask: mask("max_redemptions", "expires_at", "sync_to_processor"), MaxRedemptions: proto.Int64(3), ExpiresAt: past, SyncToProcessor: true,
	})
	if err != nil || got.GetMaxRedemptions() != 3 || !proto.Equal(got.GetExpiresAt(), past) || got.GetSyncStatus() != affiliatev1.SyncStatus_SYNC_STATUS_PENDING ||
		!got.GetActive() || got.GetRedemptions() != 7 || !got.GetUpdatedAt().AsTime().Equal(w.now.Truncate(time.Millisecond)) {
		t.Fatalf("%v, %v", got, err)
	}
	if _, events, jobs := w.trace(c.GetId()); len(events) != 1 || jobs != 2 {
		t.Errorf("events %v, %d jobs", events, jobs)
	}
	for name, same := range map[string]*affiliatev1.UpdatePromoCodeRequest{
		"no path":     {},
		"same values": {UpdateMask: mask("active", "max_redemptions", "sync_to_processor"), Active: true, MaxRedemptions: proto.Int64(3), SyncToProcessor: true},
	} {
		w.advance()
		if again, err := w.update(c.GetId(), same); err != nil || !proto.Equal(again, got) {
			t.Errorf("%s: %v, %v", name, again, err)
		}
	}
	if actions, _, jobs := w.trace(c.GetId()); !slices.Equal(actions, []string{"promo_code.create", "promo_code.update"}) || jobs != 2 {
		t.Errorf("an update that changes nothing was recorded: %v, %d jobs", actions, jobs)
	}
	w.advance()
	got, err = w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active", "max_redemptions", "expires_at")})
	if err != nil || got.GetActive() || got.MaxRedemptions != nil || got.ExpiresAt != nil {
		t.Fatalf("%v, %v", got, err)
	}
	object, previous := w.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["active"] != false || object["version"] != 3.0 || previous["active"] != true || previous["max_redemptions"] != 3.0 || len(previous) != 3 {
		t.Errorf("event %v, before %v", object, previous)
	}
	w.advance()
	if got, err = w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true}); err != nil || !got.GetActive() {
		t.Fatalf("%v, %v", got, err)
	}
	actions, events, jobs := w.trace(c.GetId())
	if len(actions) != 4 || !slices.Equal(events, []string{"promo_code.created", "promo_code.deactivated"}) || jobs != 4 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
}

func TestUpdatePromoCode_Refusals(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	c := w.mustCreate(jane, "may")
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdatePromoCodeRequest
		field string
	}{
		"the code":               {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("code")}, "update_mask"},
		"a field without a path": {&affiliatev1.UpdatePromoCodeRequest{MaxRedemptions: proto.Int64(1)}, "update_mask"},
		"invalid timestamp": {&affiliatev1.UpdatePromoCodeRequest{
			UpdateMask: mask("expires_at"), ExpiresAt: &timestamppb.Timestamp{Nanos: -1},
		}, "expires_at"},
		"zero redemptions": {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("max_redemptions"), MaxRedemptions: proto.Int64(0)}, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.update(c.GetId(), tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}
	// A code of an archived programme can still be deactivated.
	w.Exec(`update programs set status = 'archived'`)
	if got, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil || got.GetActive() {
		t.Errorf("%v, %v", got, err)
	}
	w.Exec(`update participants set erased_at = $1`, w.now)
	_, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}

// A code is updated while conversions redeem it. No update and no redemption is lost.
func TestUpdatePromoCode_InParallelWithRedemptionsKeepsBoth(t *testing.T) {
	w := newWorld(t)
	c := w.mustCreate(w.newParticipant(), "may")
	results := make(chan error, 40)
	for i := range cap(results) {
		go func() {
			_, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("max_redemptions"), MaxRedemptions: proto.Int64(int64(i) + 1)})
			results <- err
		}()
	}
	for range 40 {
		w.Exec(`update promo_codes set redemptions = redemptions + 1`)
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if w.Count(`select count(*) from promo_codes where redemptions = 40 and version = 41`) != 1 {
		t.Error("redemptions or changes are lost")
	}
}

// When a code is deleted in parallel, one request succeeds, and there is one event.
func TestDeletePromoCode(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	c := w.mustCreate(jane, "may")
	w.advance()
	results := make(chan error, 10)
	for range cap(results) {
		go func() {
			_, err := w.service.DeletePromoCode(w.asLiveMerchant(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()})
			results <- err
		}()
	}
	deleted := 0
	for range cap(results) {
		if err := <-results; err == nil {
			deleted++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		}
	}
	actions, events, jobs := w.trace(c.GetId())
	if deleted != 1 || !slices.Equal(actions, []string{"promo_code.create", "promo_code.delete"}) || !slices.Equal(events, []string{"promo_code.created", "promo_code.deactivated"}) || jobs != 2 {
		t.Errorf("deleted %d times: audit log %v, events %v, %d jobs", deleted, actions, events, jobs)
	}
	object, previous := w.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["active"] != false || object["version"] != 2.0 || previous["active"] != true {
		t.Errorf("event %v, before %v", object, previous)
	}
	if codes, total := w.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 0 || len(codes) != 0 {
		t.Errorf("codes after the deletion: %v, total %d", codes, total)
	}
	// The same code can be created again. If a code was deactivated before it is deleted,
	// there is no second event.
	again := w.mustCreate(jane, "MAY")
	w.advance()
	if _, err := w.update(again.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil {
		t.Fatal(err)
	}
	w.advance()
	w.Exec(`update participants set erased_at = $1`, w.now)
	if _, err := w.service.DeletePromoCode(w.asLiveMerchant(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: again.GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, events, _ := w.trace(again.GetId()); !slices.Equal(events, []string{"promo_code.created", "promo_code.deactivated"}) {
		t.Errorf("events %v", events)
	}
}

func TestPromoCodeChanges_FailWithoutTheirAuditRecord(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	c := w.mustCreate(jane, "may")
	w.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := w.create(jane, "june", nil); err == nil {
		t.Error("created without an audit record")
	}
	if _, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err == nil {
		t.Error("changed without an audit record")
	}
	if _, err := w.service.DeletePromoCode(w.asLiveMerchant(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()}); err == nil {
		t.Error("deleted without an audit record")
	}
	if w.Count(`select count(*) from promo_codes where active and version = 1`) != 1 || w.Count(`select count(*) from promo_codes`) != 1 ||
		w.Count(`select sum(n) from list_counts where what = 'promo_codes'`) != 1 || w.Count(`select count(*) from events`) != 1 {
		t.Error("a failed change was stored in part")
	}
}
