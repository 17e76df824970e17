package tributary_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	tributary "github.com/tributary-hq/tributary/clients/go"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func Example() {
	client, err := tributary.New("core.internal:9090", tributary.Options{
		Credential: tributary.Key(os.Getenv("TRIBUTARY_SECRET_KEY")),
		TLS:        &tls.Config{MinVersion: tls.VersionTLS13},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()

	response, err := client.Conversions.ReportConversion(context.Background(), &affiliatev1.ReportConversionRequest{
		EventType:             affiliatev1.EventType_EVENT_TYPE_PURCHASE,
		ExternalTransactionId: "order-1001",
		AmountCents:           new(int64(4900)),
		Currency:              new("EUR"),
		ClickId:               new("01936f2e-7c1a-7000-8000-5e1f0c9a7b42"),
	})
	if tributary.Code(err) == "CONVERSION_DUPLICATE" {
		return // reported before
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.GetAttributed(), response.GetCommission().GetAmountCents())
}

// The following examples contain the excerpts of docs/grpc.md. A test compares them.

func ExampleNew_clientCertificate() {
	roots := x509.NewCertPool()
	if pem, err := os.ReadFile("ca.pem"); err != nil || !roots.AppendCertsFromPEM(pem) {
		log.Fatal("ca.pem contains no certificate or cannot be read: ", err)
	}
	certificate, err := tls.LoadX509KeyPair("client.pem", "client-key.pem")
	if err != nil {
		log.Fatal(err)
	}
	client, err := tributary.New("core.internal:9090", tributary.Options{
		Credential: tributary.Key(os.Getenv("TRIBUTARY_SECRET_KEY")),
		TLS:        &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}},
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = client.Close()
}

func ExampleNew_severalCores() {
	client, err := tributary.New("core.internal:9090", tributary.Options{
		Plaintext:   true,
		DialOptions: []grpc.DialOption{grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`)},
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = client.Close()
	// Output:
}

func ExampleCompleteLogin() {
	var anonymous *tributary.Client
	var session *tributary.Session
	var login *affiliatev1.LoginRequest
	ctx := context.Background()
	tokens, err := anonymous.Accounts.LoginMerchant(ctx, login)
	switch {
	case err == nil:
		session = tributary.NewSession(anonymous, tokens)
	case tributary.Code(err) == "SECOND_FACTOR_REQUIRED":
		var code string
		fmt.Print("Code: ")
		_, _ = fmt.Scanln(&code)
		session, err = tributary.CompleteLogin(ctx, anonymous, affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT, tributary.Challenge(err), code)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.RefreshToken())
}

func ExampleClient_metadata() {
	ctx, key, order := context.Background(), os.Getenv("TRIBUTARY_SECRET_KEY"), "order-1001"
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key, "x-mode", "test")
	ctx = metadata.AppendToOutgoingContext(ctx, tributary.IdempotencyKey, order)
	sent, _ := metadata.FromOutgoingContext(ctx)
	fmt.Println(sent.Get("x-mode"), sent.Get("idempotency-key"))
	// Output: [test] [order-1001]
}

func ExampleClient_update() {
	var client *tributary.Client
	var programID, linkID string
	ctx := context.Background()
	link, err := client.Links.UpdateLink(ctx, &affiliatev1.UpdateLinkRequest{
		ProgramId: programID, LinkId: linkID, SubId: new("newsletter"),
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sub_id"}},
	})
	fmt.Println(link.GetSubId(), err)
}

func ExampleClient_bulk() {
	var client *tributary.Client
	request := &affiliatev1.ReportConversionsRequest{}
	ctx := context.Background()
	response, err := client.Conversions.ReportConversions(ctx, request)
	for _, detail := range status.Convert(err).Details() {
		if results, ok := detail.(*affiliatev1.ReportConversionsResponse); ok {
			response = results
		}
	}
	fmt.Println(response.GetResults(), err)
}
