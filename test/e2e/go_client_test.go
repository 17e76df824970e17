package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tributary "github.com/tributary-hq/tributary/clients/go"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// lossyConnection counts the calls of a client by method. It can lose responses: the
// service executes the call, but the client gets an error.
type lossyConnection struct {
	mu     sync.Mutex
	losses int // the number of responses that are still to be lost
	calls  map[string]int
}

func (c *lossyConnection) intercept(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.mu.Lock()
	c.calls[method]++
	lose := c.losses > 0
	if lose {
		c.losses--
	}
	c.mu.Unlock()
	if !lose {
		return invoke(ctx, method, request, response, conn, opts...)
	}
	var lost metadata.MD
	if err := invoke(ctx, method, request, response, conn, append(opts, grpc.Header(&lost))...); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the connection broke before the response arrived")
}

// loseNext loses the responses of the next n calls.
func (c *lossyConnection) loseNext(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = n
}

// newGoClient returns a client in test mode and its lossy connection.
func newGoClient(t *testing.T, sys *system, credential func(context.Context) (string, error)) (*tributary.Client, *lossyConnection) {
	t.Helper()
	lossy := &lossyConnection{calls: map[string]int{}}
	client, err := tributary.New(sys.grpc, tributary.Options{
		Credential: credential, Mode: "test", Plaintext: true,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(lossy.intercept)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, lossy
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	const limit = 30
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_LIMIT_CONVERSIONS": strconv.Itoa(limit)}})
	f := sys.newFixture(t, "test", nil)
	click := f.click(t)
	client, lossy := newGoClient(t, sys, tributary.Key(f.secretKey))
	sale := func(order string) *affiliatev1.ReportConversionRequest {
		amount, currency := int64(4900), "USD"
		return &affiliatev1.ReportConversionRequest{
			EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: order,
			AmountCents: &amount, Currency: &currency, ClickId: &click,
		}
	}

	t.Run("ConversionIsStoredOnceIfResponseIsLost", func(t *testing.T) {
		lossy.loseNext(2)
		var header metadata.MD
		reported, err := client.Conversions.ReportConversion(t.Context(), sale("lost-response"), grpc.Header(&header))
		if err != nil {
			t.Fatal(err)
		}
		if !reported.GetAttributed() || !slices.Equal(header.Get("idempotent-replayed"), []string{"true"}) {
			t.Errorf("the repeated report returned attributed %v and the header %v, want true and idempotent-replayed", reported.GetAttributed(), header)
		}
		if got := lossy.calls[affiliatev1.ConversionService_ReportConversion_FullMethodName]; got != 3 {
			t.Errorf("the call was sent %d times, want 3", got)
		}
		_, err = client.Conversions.ReportConversion(t.Context(), sale("lost-response"))
		if code := tributary.Code(err); code != "CONVERSION_DUPLICATE" {
			t.Errorf("the same order with another idempotency key: got %v, want CONVERSION_DUPLICATE", err)
		}
	})

	t.Run("AfterLostResponseReadIsRepeatedAndRefundIsNot", func(t *testing.T) {
		lossy.loseNext(1)
		if _, err := client.Conversions.ListConversions(t.Context(), &affiliatev1.ListConversionsRequest{}); err != nil {
			t.Errorf("ListConversions after a lost response: %v", err)
		}
		lossy.loseNext(1)
		_, err := client.Conversions.RefundConversion(t.Context(), &affiliatev1.RefundConversionRequest{
			ExternalTransactionId: "lost-response", ExternalRefundId: "refund-1",
		})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("the call returned %v, want UNAVAILABLE", err)
		}
		if got := lossy.calls[affiliatev1.ConversionService_RefundConversion_FullMethodName]; got != 1 {
			t.Errorf("the refund was sent %d times, want 1", got)
		}
	})

	t.Run("NumberOfAttemptsIsLimited", func(t *testing.T) {
		lossy.loseNext(10)
		defer lossy.loseNext(0)
		_, err := client.Health.CheckLiveness(t.Context(), &affiliatev1.CheckLivenessRequest{})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("the call returned %v, want UNAVAILABLE", err)
		}
		if got := lossy.calls[affiliatev1.HealthService_CheckLiveness_FullMethodName]; got != 4 {
			t.Errorf("the call was sent %d times, want 4", got)
		}
	})

	t.Run("CallOverRateLimitIsRepeatedLater", func(t *testing.T) {
		before := lossy.calls[affiliatev1.ConversionService_ReportConversion_FullMethodName]
		useUpConversionLimit(t, f, limit)
		if _, err := client.Conversions.ReportConversion(t.Context(), sale("over-the-limit")); err != nil {
			t.Fatal(err)
		}
		if got := lossy.calls[affiliatev1.ConversionService_ReportConversion_FullMethodName] - before; got < 2 {
			t.Errorf("the call was sent %d times, want at least 2", got)
		}
	})

	t.Run("PagesYieldsEveryItemOnce", func(t *testing.T) {
		for i := range 5 {
			if _, err := client.Conversions.ReportConversion(t.Context(), sale("page-"+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		size, seen := int32(2), map[string]int{}
		for conversion, err := range tributary.Pages(func(page int32) (*affiliatev1.ListConversionsResponse, error) {
			return client.Conversions.ListConversions(t.Context(), &affiliatev1.ListConversionsRequest{Page: &page, PageSize: &size})
		}) {
			if err != nil {
				t.Fatal(err)
			}
			seen[conversion.GetExternalTransactionId()]++
		}
		for i := range 5 {
			if order := "page-" + strconv.Itoa(i); seen[order] != 1 {
				t.Errorf("%s was yielded %d times, want 1", order, seen[order])
			}
		}
	})

	t.Run("ErrorsHaveCodeAndFields", func(t *testing.T) {
		wrong := sale("wrong")
		negative := int64(-1)
		wrong.AmountCents = &negative
		_, err := client.Conversions.ReportConversion(t.Context(), wrong)
		fields := tributary.FieldErrors(err)
		if tributary.Code(err) != "VALIDATION_ERROR" || len(fields) != 1 || fields[0].Field != "amount_cents" {
			t.Errorf("ReportConversion returned %v with the fields %v, want VALIDATION_ERROR for amount_cents", err, fields)
		}
	})

	t.Run("SessionRenewsTokenOnceForConcurrentCalls", func(t *testing.T) {
		anonymous, connection := newGoClient(t, sys, nil)
		tokens, err := anonymous.Accounts.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: f.merchant.email, Password: password})
		if err != nil {
			t.Fatal(err)
		}
		tokens.ExpiresIn = 30 // the session renews a token that expires so soon before the first call
		session := tributary.NewSession(anonymous, tokens)
		merchant, _ := newGoClient(t, sys, session.Token)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				if _, err := merchant.Workspaces.GetWorkspace(t.Context(), &affiliatev1.GetWorkspaceRequest{}); err != nil {
					t.Errorf("GetWorkspace: %v", err)
				}
			})
		}
		calls.Wait()
		if got := connection.calls[affiliatev1.AccountService_RefreshSession_FullMethodName]; got != 1 {
			t.Errorf("the session was refreshed %d times, want 1", got)
		}
		if session.RefreshToken() == tokens.GetRefreshToken() {
			t.Error("RefreshToken returns the token of the login after a refresh")
		}
	})

	t.Run("LoginWithSecondFactorIsCompletedWithACode", func(t *testing.T) {
		anonymous, _ := newGoClient(t, sys, nil)
		for kind, a := range map[affiliatev1.AccountKind]caller{
			affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT: sys.newMerchant(t),
			affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER:  sys.newPartner(t),
		} {
			code, login, own := a.enableFactor(t)[0], anonymous.Accounts.LoginMerchant, workspacePath
			if a.kind == "partner" {
				login, own = anonymous.Accounts.LoginPartner, "/api/v1/partner/profile"
			}
			_, err := login(t.Context(), &affiliatev1.LoginRequest{Email: a.email, Password: password})
			challenge := tributary.Challenge(err)
			if tributary.Code(err) != "SECOND_FACTOR_REQUIRED" || challenge == "" {
				t.Fatalf("the login of a %s returned %v with the challenge %q, want SECOND_FACTOR_REQUIRED", a.kind, err, challenge)
			}
			if _, err := tributary.CompleteLogin(t.Context(), anonymous, kind, challenge, "000000"); tributary.Code(err) != "INVALID_CREDENTIALS" {
				t.Errorf("a wrong code: got %v, want INVALID_CREDENTIALS", err)
			}
			session, err := tributary.CompleteLogin(t.Context(), anonymous, kind, challenge, code)
			if err != nil {
				t.Fatal(err)
			}
			token, err := session.Token(t.Context())
			if err != nil || session.RefreshToken() == "" {
				t.Fatalf("the session returned %v and the refresh token %q", err, session.RefreshToken())
			}
			sys.client().withCredential(token).get(t, own).wantStatus(http.StatusOK)
			if _, err := tributary.CompleteLogin(t.Context(), anonymous, kind, challenge, code); tributary.Code(err) != "CHALLENGE_INVALID" {
				t.Errorf("a used challenge: got %v, want CHALLENGE_INVALID", err)
			}
		}
	})

	t.Run("OnlyWebhooksOfTheServiceAreVerified", func(t *testing.T) {
		hook := startReceiver(t)
		endpoint := f.merchant.post(t, "/api/v1/webhooks", object{"url": hook.url, "subscriptions": []string{"*"}}).wantStatus(http.StatusCreated)
		f.merchant.post(t, "/api/v1/webhooks/"+endpoint.text("id")+"/test-ping", nil).wantStatus(http.StatusOK)
		ping := hook.requests()[0]
		secret := endpoint.text("signingSecret")
		event, err := tributary.VerifyWebhook(secret, ping.body, ping.header)
		if err != nil || event.Type != "webhook.ping" || event.Mode != "test" || event.ID != ping.header.Get("webhook-id") {
			t.Errorf("VerifyWebhook returned %+v, %v; want the ping %s in test mode", event, err, ping.header.Get("webhook-id"))
		}
		if _, err := tributary.VerifyWebhook(secret, append(ping.body, ' '), ping.header); err == nil {
			t.Error("VerifyWebhook accepted a changed body")
		}
	})
}

func TestGoClient_TLSOrPlaintextIsRequired(t *testing.T) {
	t.Parallel()
	if _, err := tributary.New("127.0.0.1:9090", tributary.Options{}); err == nil {
		t.Error("New returned no error without TLS and without Plaintext")
	}
}
