package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// A member learns that the record exists in the other mode. Every other caller gets the
// same message as for an id that does not exist, and causes no look-up.
func TestSuggestMode_OnlyForMembersAndStatus404(t *testing.T) {
	shop := pgtest.Open(t, time.Now).NewShop(affiliate.ModeTest)
	inLive := shop.InOtherMode()
	testID, liveID := shop.NewCommission(shop.Join("Pat")).ID, inLive.NewCommission(inLive.Join("Quinn")).ID
	var n atomic.Int64
	p := &pipeline{db: shop.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "from commissions") {
			n.Add(1)
		}
		return nil
	})}
	get := func(id string) any { return &affiliatev1.GetCommissionRequest{CommissionId: id} }
	notFound := affiliate.Refuse(affiliate.ReasonNotFound)
	for _, c := range []struct {
		name    string
		caller  Principal
		policy  Policy
		request any
		err     error
		want    string
		lookups int64
	}{
		{name: "member, test mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, want: "Not found. It exists in test mode; send X-Mode: test.", lookups: 1},
		{name: "member, live mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeTest}, request: get(liveID.String()), want: "Not found. It exists in live mode; send X-Mode: live.", lookups: 1},
		{name: "another code", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, err: affiliate.Refuse(affiliate.ReasonWebhookNotFound), want: "There is no such webhook endpoint. It exists in test mode; send X-Mode: test.", lookups: 1},
		{name: "record of no mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, request: get(affiliate.NewID[affiliate.CommissionID](time.Now()).String()), want: "Not found.", lookups: 1},
		{name: "record of the same mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeTest}, want: "Not found.", lookups: 1},
		{name: "another status", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, err: affiliate.Refuse(affiliate.ReasonForbidden)},
		{name: "secret key", caller: Principal{Kind: SecretKey, Mode: affiliate.ModeLive}, want: "Not found."},
		{name: "service token", caller: Principal{Kind: ServiceToken, Mode: affiliate.ModeLive}, want: "Not found."},
		{name: "partner", caller: Principal{Kind: PartnerToken, Mode: affiliate.ModeLive}, want: "Not found."},
		{name: "method of both modes", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, policy: Policy{IgnoresMode: true}, want: "Not found."},
		{name: "request without ids", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, request: &affiliatev1.ListProgramsRequest{}, want: "Not found."},
		{name: "id that is not a UUID", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, request: get("1"), want: "Not found."},
	} {
		t.Run(c.name, func(t *testing.T) {
			failure, sent, before := c.err, c.request, n.Load()
			if failure == nil {
				failure = notFound
			}
			if sent == nil {
				sent = get(testID.String())
			}
			c.caller.Workspace = shop.Scope.Workspace
			ctx := context.WithValue(WithPrincipal(t.Context(), c.caller), admissionKey{}, admission{policy: c.policy})
			_, err := p.suggestMode(ctx, sent, nil, func(context.Context, any) (any, error) { return nil, failure })
			if !errors.Is(err, failure) {
				t.Fatalf("the error is %v, want %v", err, failure)
			}
			if got := toStatus(err).Message(); c.want != "" && got != c.want || n.Load()-before != c.lookups {
				t.Errorf("%d look-ups and the message %q, want %d and %q", n.Load()-before, got, c.lookups, c.want)
			}
		})
	}
	if notFound.Message != "" {
		t.Errorf("the error of the handler has changed: %v", notFound)
	}
}

// If the look-up fails, the caller gets the 404 without the sentence, and the failure is
// logged.
func TestSuggestMode_FailureOfLookUpIsLogged(t *testing.T) {
	shop := pgtest.Open(t, time.Now).NewShop(affiliate.ModeTest)
	var log bytes.Buffer
	p := &pipeline{
		log: slog.New(slog.NewTextHandler(&log, nil)),
		db: shop.OpenHooked(func(sql string, _ []any) error {
			if strings.Contains(sql, "from programs") {
				return errors.New("no connection")
			}
			return nil
		}),
	}
	caller := Principal{Kind: MerchantToken, Workspace: shop.Scope.Workspace, Mode: affiliate.ModeLive}
	ctx := context.WithValue(WithPrincipal(t.Context(), caller), admissionKey{}, admission{})
	request := &affiliatev1.GetProgramRequest{ProgramId: shop.Program.String()}
	_, err := p.suggestMode(ctx, request, nil, func(context.Context, any) (any, error) { return nil, affiliate.Refuse(affiliate.ReasonNotFound) })
	if st := toStatus(err); st.Message() != "Not found." || !strings.Contains(log.String(), "cannot look for records in the other mode") {
		t.Errorf("the status is %v and the log %s, want the plain message and the failure in the log", st, &log)
	}
}
