package tributary_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"

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

	amount, currency, clickID := int64(4900), "EUR", "01936f2e-7c1a-7000-8000-5e1f0c9a7b42"
	response, err := client.Conversions.ReportConversion(context.Background(), &affiliatev1.ReportConversionRequest{
		EventType:             affiliatev1.EventType_EVENT_TYPE_PURCHASE,
		ExternalTransactionId: "order-1001",
		AmountCents:           &amount,
		Currency:              &currency,
		ClickId:               &clickID,
	})
	if tributary.Code(err) == "CONVERSION_DUPLICATE" {
		return // reported before
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.GetAttributed(), response.GetCommission().GetAmountCents())
}
