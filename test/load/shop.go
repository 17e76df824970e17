package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	// shopClicks is the number of clicks to which conversions refer. SCALE multiplies it.
	shopClicks = 20_000
	// clickDigits is the number of digits at the end of a click id that contain the
	// click's number.
	clickDigits = 12
)

// shop is a merchant with a programme, an approved partner, and clicks.
type shop struct {
	workspace affiliate.WorkspaceID
	merchant  string // access token
	key       string
	clicks    int
	// clickedAt is the time in the ids of all clicks. All ids begin with clickHead and
	// end with twelve digits, which are the click's number in decimal. The first number
	// is 1.
	clickedAt time.Time
	clickHead string
	// reported is the number of purchases that were reported.
	reported atomic.Int64
}

// openShop creates a shop through the API of a core that uses a new database, and then
// inserts the clicks of the shop. When it returns, there is no connection to the
// database, so that the database can be copied.
func (b *bench) openShop(ctx context.Context, db *database) (*shop, error) {
	core, err := b.startCore(ctx, db)
	if err != nil {
		return nil, err
	}
	opened, err := setUpShop(ctx, core.address)
	core.stop()
	if err != nil {
		return nil, core.fail(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	anyID := affiliate.NewID[affiliate.ClickID](now).String()
	s := &shop{
		merchant: opened.merchant, key: opened.secretKey, clicks: shopClicks * b.scale,
		clickedAt: now, clickHead: anyID[:len(anyID)-clickDigits],
	}
	click := click.Click{
		Scope: affiliate.Scope{Mode: affiliate.ModeLive}, ReferralCode: clickCode, Consent: click.ConsentGranted,
		ClickedAt: now, ReceivedAt: now, ExpiresAt: click.WindowEnd(now, 30), CreatedAt: now,
	}
	var ok bool
	if click.Program, ok = affiliate.ParseID[affiliate.ProgramID](opened.program); !ok {
		return nil, fmt.Errorf("invalid programme id %q", opened.program)
	}
	if click.Participant, ok = affiliate.ParseID[affiliate.ParticipantID](opened.participant); !ok {
		return nil, fmt.Errorf("invalid participant id %q", opened.participant)
	}
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return nil, err
	}
	const link = "select workspace_id, id from links where program_id = $1 and participant_id = $2 and is_default"
	err = conn.QueryRow(ctx, link, click.Program, click.Participant).Scan(&s.workspace, &click.Link)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	click.Workspace = s.workspace
	if err := s.addClicks(ctx, db, click); err != nil {
		return nil, err
	}
	return s, execute(ctx, db.url, "vacuum analyze")
}

func (s *shop) addClicks(ctx context.Context, db *database, template click.Click) error {
	store, err := postgres.Open(ctx, postgres.Config{URL: db.url})
	if err != nil {
		return err
	}
	defer store.Close()
	stored := make([]click.Click, s.clicks)
	for n := range stored {
		stored[n] = template
		if stored[n].ID.UUID, err = uuid.Parse(s.clickID(n + 1)); err != nil {
			return err
		}
	}
	return clicks.Store(ctx, store, stored)
}

func (s *shop) clickID(n int) string { return fmt.Sprintf("%s%0*d", s.clickHead, clickDigits, n) }

// nextPurchase returns the external transaction id and the click of a new purchase. When
// all clicks were used, it starts again with the first click.
func (s *shop) nextPurchase() (order, click string) {
	n := int(s.reported.Add(1))
	return "order-" + strconv.Itoa(n), s.clickID(1 + n%s.clicks)
}

// appendReport appends the HTTP request that reports a new purchase. reportRequest
// returns the gRPC request that reports a new purchase.
func (s *shop) appendReport(dst []byte, _ int) []byte {
	order, click := s.nextPurchase()
	return appendPost(dst, conversionsPath, s.key, `{"event_type":"purchase","external_transaction_id":"`+order+
		`","amount_cents":10000,"currency":"EUR","click_id":"`+click+`"}`)
}

func (s *shop) reportRequest() *affiliatev1.ReportConversionRequest {
	order, click := s.nextPurchase()
	return &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: order,
		AmountCents: proto.Int64(10000), Currency: proto.String("EUR"), ClickId: &click,
	}
}

type object = map[string]any

// shopSetup contains the access token of the merchant, and the keys and ids that setUpShop has created.
type shopSetup struct{ merchant, secretKey, publicKey, program, participant string }

// setUpShop creates a merchant with API keys and an active programme, and a partner in
// this programme with the referral code clickCode.
func setUpShop(ctx context.Context, address string) (made shopSetup, err error) {
	type reply struct{ ID, AccessToken, SecretKey, PublicKey string }
	var response reply
	api := service.API{Address: address}
	call := func(method, path, credential string, body object) {
		if err == nil {
			response = reply{}
			err = api.Call(ctx, method, path, credential, body, &response)
		}
	}
	account := func(kind string, about object) (token string) {
		about["email"], about["password"] = kind+"@example.com", "a long enough password"
		call(http.MethodPost, "/auth/"+kind+"/register", "", about)
		return response.AccessToken
	}
	merchant := account("merchant", object{"name": "Mia", "workspaceName": "Shop"})
	made.merchant = merchant
	partner := account("partner", object{"name": "Pat", "country": "DE"})
	call(http.MethodPost, "/api-keys", merchant, object{"name": "Load"})
	made.secretKey = response.SecretKey
	call(http.MethodGet, "/api-keys", merchant, nil)
	made.publicKey = response.PublicKey
	call(http.MethodPost, "/programs", merchant, object{
		"name": "Spring", "slug": "spring", "websiteUrl": "https://shop.example.com", "isPublic": true, "currency": "EUR",
		"commissionRules": object{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 30, "autoApproval": true},
	})
	made.program = response.ID
	// Disable the velocity rule, which would flag the conversions because all of them
	// have the same partner.
	call(http.MethodPut, "/programs/"+made.program+"/fraud-policy", merchant, object{"policy": "flag", "disabledRules": []string{"conversion_velocity"}})
	call(http.MethodPost, "/programs/"+made.program+"/activate", merchant, nil)
	call(http.MethodPost, "/partner/programs/"+made.program+"/apply", partner, object{"acceptTerms": true, "referralCode": clickCode})
	made.participant = response.ID
	call(http.MethodPatch, "/programs/"+made.program+"/partners/"+made.participant+"/approve", merchant, object{})
	return made, err
}
