package promocode

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestValidPromoCode(t *testing.T) {
	for code, want := range map[string]bool{
		"a": true, "summer-20": true, "50%off!": true, "été": true, "夏": true, "😀": true, strings.Repeat("ä", MaxPromoCode): true,
		"": false, strings.Repeat("a", MaxPromoCode+1): false, "two words": false, "tab\tbed": false, "line\nfeed": false, "nul\x00": false,
		"no\u00a0break": false, "zero\u200bwidth": false, "right\u202eto left": false, "soft\u00adhyphen": false, "bell\a": false,
		"\u2028": false, "bad\xff": false, "\ufeffbom": false,
	} {
		if got := ValidPromoCode(code); got != want {
			t.Errorf("ValidPromoCode(%q) = %v, want %v", code, got, want)
		}
	}
}

func TestPromoCode_Patch(t *testing.T) {
	end, most := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), int64(5)
	code := PromoCode{Active: true, MaxRedemptions: &most, ExpiresAt: &end, SyncStatus: SyncNone}
	if got := code.Patch(Patch{}); got != code {
		t.Errorf("empty patch: %+v, want no change", got)
	}
	got := code.Patch(Patch{Active: affiliate.Set(false), MaxRedemptions: affiliate.Clear[int64](), ExpiresAt: affiliate.Clear[time.Time](), Sync: affiliate.Set(true)})
	if got.Active || got.MaxRedemptions != nil || got.ExpiresAt != nil || !got.Sync || got.SyncStatus != SyncPending {
		t.Errorf("patch of all fields: %+v", got)
	}
	got.SyncStatus = SyncSynced
	if again := got.Patch(Patch{Sync: affiliate.Set(true)}); again.SyncStatus != SyncSynced {
		t.Errorf("synchronisation enabled again: status %s, want %s", again.SyncStatus, SyncSynced)
	}
	if disabled := got.Patch(Patch{Sync: affiliate.Set(false)}); disabled.Sync || disabled.SyncStatus != SyncNone {
		t.Errorf("synchronisation disabled: Sync is %v, status %s; want false, %s", disabled.Sync, disabled.SyncStatus, SyncNone)
	}
}

func TestPromoCodeObject(t *testing.T) {
	end, most, currency := time.Date(2026, 12, 31, 1, 2, 3, 0, time.UTC), int64(5), "EUR"
	const zero = `"00000000-0000-0000-0000-000000000000"`
	const ids = `{"id":` + zero + `,"program_id":` + zero + `,"participant_id":` + zero + `,"code":"may",`
	for want, code := range map[string]PromoCode{
		ids + `"discount_type":"percentage","discount_value":12.5,"currency":null,"max_redemptions":null,"redemptions":0,` +
			`"expires_at":null,"active":false,"sync_status":"none","version":1}`: {
			Code: "may", DiscountType: DiscountPercentage, DiscountValue: 1250, SyncStatus: SyncNone, Version: 1,
		},
		ids + `"discount_type":"fixed","discount_value":1250,"currency":"EUR","max_redemptions":5,"redemptions":2,` +
			`"expires_at":"2026-12-31T01:02:03.000Z","active":true,"sync_status":"pending","version":2}`: {
			Code: "may", DiscountType: DiscountFixed, DiscountValue: 1250, Currency: &currency, MaxRedemptions: &most, Redemptions: 2,
			ExpiresAt: &end, Active: true, SyncStatus: SyncPending, Version: 2,
		},
	} {
		if text, err := json.Marshal(code.Object()); err != nil || string(text) != want {
			t.Errorf("JSON of the promo code is %s, error %v\nwant %s", text, err, want)
		}
	}
}

func TestUsable(t *testing.T) {
	at := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	later, most := at.Add(time.Millisecond), int64(2)
	for name, tc := range map[string]struct {
		got, want bool
	}{
		"no bounds":                     {Usable(true, nil, 1000, nil, at), true},
		"not active":                    {Usable(false, nil, 0, nil, at), false},
		"at its expiry":                 {Usable(true, &at, 0, nil, at), true},
		"after its expiry":              {Usable(true, &at, 0, nil, later), false},
		"one redemption left":           {Usable(true, nil, 1, &most, at), true},
		"no redemption left":            {Usable(true, nil, 2, &most, at), false},
		"limit lowered below the count": {Usable(true, nil, 3, &most, at), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: Usable() = %v, want %v", name, tc.got, tc.want)
		}
	}
}
