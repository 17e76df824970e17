package conversion

import (
	"reflect"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// A stored outcome must decode to the same outcome.
func TestReportOutcome_EncodeAndDecode(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)
	click, code, method := affiliate.NewID[affiliate.ClickID](at), "spring10", attribution.ByPromoCode
	program, participant := affiliate.NewID[affiliate.ProgramID](at), affiliate.NewID[affiliate.ParticipantID](at)
	whole := ReportOutcome{
		Conversion: ReportedConversion{
			ID: affiliate.NewID[affiliate.ConversionID](at), EventType: affiliate.Purchase, ExternalTransactionID: "<order & \u2028>", AmountCents: 10_000, Currency: "EUR",
			Mode: affiliate.ModeTest, OccurredAt: at, CreatedAt: at, Click: &click, PromoCode: &code,
		},
		Attribution: ReportedAttribution{
			Decision: affiliate.NewID[affiliate.DecisionID](at), Attributed: true, Method: &method, Reason: "PROMO_CODE_MATCHED", Explanation: "Because.",
			Program: &program, Participant: &participant, ClickedAt: &at, ExpiresAt: &at,
		},
		Commission: &ReportedCommission{
			ID: affiliate.NewID[affiliate.CommissionID](at), Status: commission.Pending, AmountCents: 3_000, Currency: "EUR", HoldUntil: &at, NeedsReview: true,
		},
		Flagged: true, Fraud: []fraud.Signal{{Rule: "self_referral", Score: 90, Evidence: "the same address"}},
	}
	for _, part := range []any{whole, whole.Conversion, whole.Attribution, *whole.Commission} {
		for i := range reflect.TypeOf(part).NumField() {
			if reflect.ValueOf(part).Field(i).IsZero() {
				t.Fatalf("%T: the test does not set %s", part, reflect.TypeOf(part).Field(i).Name)
			}
		}
	}
	for _, o := range []ReportOutcome{whole, {}} {
		stored, err := o.Encode()
		if err != nil || stored[0] != '{' {
			t.Fatalf("Encode returns %s, error %v; want a JSON object", stored, err)
		}
		if got, err := DecodeReportOutcome(stored); err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("DecodeReportOutcome returns %+v, error %v; want %+v", got, err, o)
		}
	}
}
