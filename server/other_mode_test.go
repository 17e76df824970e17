package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// A member learns that the record exists in the other mode. Every other caller gets the
// same message as for an id that does not exist, and causes no look-up.
func TestSuggestMode_OnlyForMembersAndStatus404(t *testing.T) {
	id := affiliate.NewID[affiliate.CommissionID](time.Now()).String()
	request := &affiliatev1.GetCommissionRequest{CommissionId: id}
	notFound := affiliate.Refuse(affiliate.ReasonNotFound)
	for _, c := range []struct {
		name    string
		caller  Principal
		policy  Policy
		request any
		err     error
		exists  bool
		want    string
		lookups int
	}{
		{name: "member, test mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}, exists: true, want: "Not found. It exists in test mode; send X-Mode: test.", lookups: 1},
		{name: "member, live mode", caller: Principal{Kind: MerchantToken, Mode: affiliate.ModeTest}, exists: true, want: "Not found. It exists in live mode; send X-Mode: live.", lookups: 1},
		{name: "another code", caller: Principal{Kind: MerchantToken}, err: affiliate.Refuse(affiliate.ReasonWebhookNotFound), exists: true, want: "There is no such webhook endpoint. It exists in test mode; send X-Mode: test.", lookups: 1},
		{name: "record of no mode", caller: Principal{Kind: MerchantToken}, want: "Not found.", lookups: 1},
		{name: "another status", caller: Principal{Kind: MerchantToken}, err: affiliate.Refuse(affiliate.ReasonForbidden), exists: true},
		{name: "secret key", caller: Principal{Kind: SecretKey}, exists: true, want: "Not found."},
		{name: "service token", caller: Principal{Kind: ServiceToken}, exists: true, want: "Not found."},
		{name: "partner", caller: Principal{Kind: PartnerToken}, exists: true, want: "Not found."},
		{name: "method of both modes", caller: Principal{Kind: MerchantToken}, policy: Policy{IgnoresMode: true}, exists: true, want: "Not found."},
		{name: "request without ids", caller: Principal{Kind: MerchantToken}, request: &affiliatev1.ListProgramsRequest{}, exists: true, want: "Not found."},
		{name: "id that is not a UUID", caller: Principal{Kind: MerchantToken}, request: &affiliatev1.GetCommissionRequest{CommissionId: "1"}, exists: true, want: "Not found."},
	} {
		t.Run(c.name, func(t *testing.T) {
			lookups := 0
			p := &pipeline{existInMode: func(_ context.Context, scope affiliate.Scope, records []affiliate.Record) (bool, error) {
				lookups++
				if scope.Mode != c.caller.Mode.Other() || len(records) != 1 || records[0].Kind != affiliate.CommissionRecord || records[0].ID.String() != id {
					t.Errorf("looked for %v in %v, want the commission in the other mode", records, scope)
				}
				return c.exists, nil
			}}
			failure, sent := c.err, c.request
			if failure == nil {
				failure = notFound
			}
			if sent == nil {
				sent = request
			}
			ctx := context.WithValue(WithPrincipal(t.Context(), c.caller), admissionKey{}, admission{policy: c.policy})
			_, err := p.suggestMode(ctx, sent, nil, func(context.Context, any) (any, error) { return nil, failure })
			if !errors.Is(err, failure) {
				t.Fatalf("the error is %v, want %v", err, failure)
			}
			if got := toStatus(err).Message(); c.want != "" && got != c.want || lookups != c.lookups {
				t.Errorf("%d look-ups and the message %q, want %d and %q", lookups, got, c.lookups, c.want)
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
	var log bytes.Buffer
	p := &pipeline{
		log: slog.New(slog.NewTextHandler(&log, nil)),
		existInMode: func(context.Context, affiliate.Scope, []affiliate.Record) (bool, error) {
			return false, errors.New("no connection")
		},
	}
	ctx := context.WithValue(WithPrincipal(t.Context(), Principal{Kind: MerchantToken, Mode: affiliate.ModeLive}), admissionKey{}, admission{})
	request := &affiliatev1.GetProgramRequest{ProgramId: affiliate.NewID[affiliate.ProgramID](time.Now()).String()}
	_, err := p.suggestMode(ctx, request, nil, func(context.Context, any) (any, error) { return nil, affiliate.Refuse(affiliate.ReasonNotFound) })
	if st := toStatus(err); st.Message() != "Not found." || !strings.Contains(log.String(), "no connection") {
		t.Errorf("the status is %v and the log %s, want the plain message and the failure in the log", st, &log)
	}
}
