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
	jane := w.joined()
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
		t.Errorf("made %v\nwant %v", c, want)
	}
	read, err := w.service.GetPromoCode(w.live(), &affiliatev1.GetPromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()})
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
		t.Error("the edge or the audit log was not told who")
	}
}

func TestDiscounts(t *testing.T) {
	w := newWorld(t)
	jane := w.joined()
	for name, tc := range map[string]struct {
		kind     affiliatev1.DiscountType
		value    float64
		currency *string
		stored   int64
		want     *string // the currency
		field    string  // what is refused
	}{
		"nothing":             {percentage, 0, nil, 0, nil, ""},
		"everything":          {percentage, 100, nil, 10_000, nil, ""},
		"two decimals":        {percentage, 33.33, nil, 3333, nil, ""},
		"a cent of percent":   {percentage, 0.07, nil, 7, nil, ""},
		"three decimals":      {percentage, 33.333, nil, 0, nil, "discount_value"},
		"too much":            {percentage, 100.01, nil, 0, nil, "discount_value"},
		"less than nothing":   {percentage, -1, nil, 0, nil, "annotations"},
		"no number":           {percentage, math.NaN(), nil, 0, nil, "discount_value"},
		"infinite":            {fixed, math.Inf(1), nil, 0, nil, "annotations"},
		"a share of money":    {percentage, 10, proto.String("EUR"), 0, nil, "currency"},
		"the programme's":     {fixed, 500, nil, 500, proto.String("EUR"), ""},
		"its own currency":    {fixed, 500, proto.String("jpy"), 500, proto.String("JPY"), ""},
		"the most":            {fixed, 1e12, nil, 1e12, proto.String("EUR"), ""},
		"half a cent":         {fixed, 500.5, nil, 0, nil, "discount_value"},
		"no currency we know": {fixed, 500, proto.String("XXX"), 0, nil, "currency"},
		"no type":             {0, 5, nil, 0, nil, "annotations"},
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
				t.Error("another value is stored")
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

func TestCreatePromoCodeRefusals(t *testing.T) {
	w := newWorld(t)
	jane, erased := w.joined(), w.joined()
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, erased)
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.join(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"))
	w.created(jane, "Taken")

	for name, tc := range map[string]struct {
		participant, code string
		change            func(*affiliatev1.CreatePromoCodeRequest)
		reason            affiliate.Reason
		field             string
	}{
		"taken in another case":    {jane, "TAKEN", nil, affiliate.ReasonPromoCodeTaken, ""},
		"with a space":             {jane, "two words", nil, affiliate.ReasonValidation, "code"},
		"with a control character": {jane, "a\x01", nil, affiliate.ReasonValidation, "code"},
		"invisible":                {jane, "a\u200b", nil, affiliate.ReasonValidation, "code"},
		"none":                     {jane, "", nil, affiliate.ReasonValidation, "annotations"},
		"too long":                 {jane, strings.Repeat("x", 101), nil, affiliate.ReasonValidation, "annotations"},
		"of another programme":     {elsewhere, "x", nil, affiliate.ReasonValidation, "participant_id"},
		"of nobody":                {affiliate.NewID[affiliate.Participant](w.now).String(), "x", nil, affiliate.ReasonValidation, "participant_id"},
		"of an erased participant": {erased, "x", nil, affiliate.ReasonParticipantErased, ""},
		"ended": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = timestamppb.New(w.now)
		}, affiliate.ReasonValidation, "expires_at"},
		"with an end that is none": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.ExpiresAt = &timestamppb.Timestamp{Seconds: math.MaxInt64}
		}, affiliate.ReasonValidation, "expires_at"},
		"for nobody": {jane, "x", func(r *affiliatev1.CreatePromoCodeRequest) {
			r.MaxRedemptions = proto.Int64(0)
		}, affiliate.ReasonValidation, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.create(tc.participant, tc.code, tc.change)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
	if w.Count(`select count(*) from promo_codes`) != 1 || w.Count(`select sum(n) from list_counts where what = 'promo_codes'`) != 1 {
		t.Error("a refused code is there")
	}
	w.Exec(`update programs set status = 'archived'`)
	_, err := w.create(jane, "late", nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
}

func TestOnePromoCodeOfManyWins(t *testing.T) {
	w := newWorld(t)
	participants := []string{w.joined(), w.joined(), w.joined(), w.joined(), w.joined()}
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
	made := 0
	for range cap(results) {
		if err := <-results; err == nil {
			made++
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonPromoCodeTaken)
		}
	}
	if codes, total := w.list(&affiliatev1.ListPromoCodesRequest{}); made != 1 || total != 1 || !slices.Equal(codes, []string{"summer"}) {
		t.Errorf("made %d, list %v, total %d", made, codes, total)
	}
	if w.Count(`select count(*) from events`) != 1 || w.Count(`select count(*) from audit_log`) != 1 {
		t.Error("a refused code left a trace")
	}
}

func TestUpdatePromoCode(t *testing.T) {
	w := newWorld(t)
	c := w.created(w.joined(), "may")
	past := timestamppb.New(w.now.Add(-time.Hour).Truncate(time.Millisecond))
	w.Exec(`update promo_codes set redemptions = 7`)
	w.later()
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
		"no path":       {},
		"what is there": {UpdateMask: mask("active", "max_redemptions", "sync_to_processor"), Active: true, MaxRedemptions: proto.Int64(3), SyncToProcessor: true},
	} {
		w.later()
		if again, err := w.update(c.GetId(), same); err != nil || !proto.Equal(again, got) {
			t.Errorf("%s: %v, %v", name, again, err)
		}
	}
	if actions, _, jobs := w.trace(c.GetId()); !slices.Equal(actions, []string{"promo_code.create", "promo_code.update"}) || jobs != 2 {
		t.Errorf("a change of nothing left a trace: %v, %d jobs", actions, jobs)
	}
	w.later()
	got, err = w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active", "max_redemptions", "expires_at")})
	if err != nil || got.GetActive() || got.MaxRedemptions != nil || got.ExpiresAt != nil {
		t.Fatalf("%v, %v", got, err)
	}
	object, previous := w.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["active"] != false || object["version"] != 3.0 || previous["active"] != true || previous["max_redemptions"] != 3.0 || len(previous) != 3 {
		t.Errorf("event %v, before %v", object, previous)
	}
	w.later()
	if got, err = w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true}); err != nil || !got.GetActive() {
		t.Fatalf("%v, %v", got, err)
	}
	actions, events, jobs := w.trace(c.GetId())
	if len(actions) != 4 || !slices.Equal(events, []string{"promo_code.created", "promo_code.deactivated"}) || jobs != 4 {
		t.Errorf("audit log %v, events %v, %d jobs", actions, events, jobs)
	}
}

func TestUpdatePromoCodeRefusals(t *testing.T) {
	w := newWorld(t)
	jane := w.joined()
	c := w.created(jane, "may")
	for name, tc := range map[string]struct {
		req   *affiliatev1.UpdatePromoCodeRequest
		field string
	}{
		"the code":               {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("code")}, "update_mask"},
		"a field without a path": {&affiliatev1.UpdatePromoCodeRequest{MaxRedemptions: proto.Int64(1)}, "update_mask"},
		"no instant": {&affiliatev1.UpdatePromoCodeRequest{
			UpdateMask: mask("expires_at"), ExpiresAt: &timestamppb.Timestamp{Nanos: -1},
		}, "expires_at"},
		"too few": {&affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("max_redemptions"), MaxRedemptions: proto.Int64(0)}, "annotations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.update(c.GetId(), tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}
	// What is archived can still be ended.
	w.Exec(`update programs set status = 'archived'`)
	if got, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil || got.GetActive() {
		t.Errorf("%v, %v", got, err)
	}
	w.Exec(`update participants set erased_at = $1`, w.now)
	_, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active"), Active: true})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}

// A conversion that redeems while a person edits loses nothing, nor does the
// person.
func TestUpdateKeepsRedemptionsThatComeInBetween(t *testing.T) {
	w := newWorld(t)
	c := w.created(w.joined(), "may")
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

// Of many who delete a code one does, and the world hears of it once.
func TestDeletePromoCode(t *testing.T) {
	w := newWorld(t)
	jane := w.joined()
	c := w.created(jane, "may")
	w.later()
	results := make(chan error, 10)
	for range cap(results) {
		go func() {
			_, err := w.service.DeletePromoCode(w.live(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()})
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
	if codes, total := w.list(&affiliatev1.ListPromoCodesRequest{}); total != 0 || len(codes) != 0 {
		t.Errorf("left %v, %d", codes, total)
	}
	// The name is free; a code that was ended before is not ended again.
	again := w.created(jane, "MAY")
	w.later()
	if _, err := w.update(again.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil {
		t.Fatal(err)
	}
	w.later()
	w.Exec(`update participants set erased_at = $1`, w.now)
	if _, err := w.service.DeletePromoCode(w.live(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: again.GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, events, _ := w.trace(again.GetId()); !slices.Equal(events, []string{"promo_code.created", "promo_code.deactivated"}) {
		t.Errorf("events %v", events)
	}
}

func TestPromoCodeAndItsTraceAreOneTransaction(t *testing.T) {
	w := newWorld(t)
	jane := w.joined()
	c := w.created(jane, "may")
	w.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := w.create(jane, "june", nil); err == nil {
		t.Error("made without an audit log")
	}
	if _, err := w.update(c.GetId(), &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err == nil {
		t.Error("changed without an audit log")
	}
	if _, err := w.service.DeletePromoCode(w.live(), &affiliatev1.DeletePromoCodeRequest{ProgramId: w.program.String(), PromoCodeId: c.GetId()}); err == nil {
		t.Error("deleted without an audit log")
	}
	if w.Count(`select count(*) from promo_codes where active and version = 1`) != 1 || w.Count(`select count(*) from promo_codes`) != 1 ||
		w.Count(`select sum(n) from list_counts where what = 'promo_codes'`) != 1 || w.Count(`select count(*) from events`) != 1 {
		t.Error("something of the changes stayed")
	}
}
