//go:build pictures

package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

const (
	picturesFolder = "../../docs/pictures"

	// shopDays is the number of days that pass in the shop.
	shopDays = 49
	// chartDays is the number of days in the chart of the portal's start page.
	chartDays = 30
	// holdDays is the hold period of the shop's programme.
	holdDays = 14
	// payoutDay is the day on which the shop pays its partners.
	payoutDay = 31
	day       = 24 * time.Hour
)

// shopOpens is the first day of the shop in the pictures. It is fixed, so that the pictures have
// the same dates each time.
var shopOpens = time.Date(2026, time.January, 12, 9, 0, 0, 0, time.UTC)

// shopLogo is the logo of the shop in the pictures: a coffee bean and the name.
const shopLogo = `<body style="margin:0"><svg xmlns="http://www.w3.org/2000/svg" width="440" height="96" viewBox="0 0 440 96">
<rect x="4" y="4" width="88" height="88" rx="24" fill="#8a4b2a"/>
<g transform="rotate(35 48 48)"><ellipse cx="48" cy="48" rx="22" ry="31" fill="#fff"/>
<path d="M48 17c-12 14 12 24 0 38s4 18 0 24" fill="none" stroke="#8a4b2a" stroke-width="5" stroke-linecap="round"/></g>
<text x="110" y="63" font-family="Inter, system-ui, sans-serif" font-size="44" font-weight="700" fill="#8a4b2a">Northside</text></svg>`

// shopSales are the sales through the partner's link: the day and the amount in cents.
var shopSales = []struct {
	day   int
	cents int
}{
	{2, 3450},
	{5, 6200},
	{8, 2890},
	{9, 5400},
	{12, 4150},
	{14, 7980},
	{17, 3450},
	{19, 2890},
	{22, 6200},
	{23, 4150},
	{26, 9840},
	{28, 3450},
	{31, 5400},
	{33, 2890},
	{34, 6900},
	{36, 4150},
	{37, 6200},
	{40, 7450},
	{42, 3450},
	{44, 5400},
	{47, 4900},
}

// TestPictures opens the screens that the guide for partners shows, with the data of a small
// shop, and writes their pictures to docs/pictures. It has a build tag, because only `make pictures`
// runs it.
func TestPictures(t *testing.T) {
	sys := start(t, setup{at: shopOpens, env: map[string]string{"TRIBUTARY_LINK_URL": "https://go.northside.example"}})
	ctx := browsertest.Start(t)
	s := sys.openShop(ctx, t)
	payout := s.trade(t)

	p := newTab(ctx, t, sys, browsertest.User{Name: "visitor", Width: 1280})
	p.open("/portal/northside/friends")
	p.wantText("20% of each sale")
	p.savePicture("programme", wholePage)

	p = newPictureTab(ctx, t, sys, browsertest.User{Name: "partner", Width: 1280}, s.partner)
	p.wantChart()
	p.savePicture("home", wholePage)
	p.open("/portal/links?program=" + s.program)
	p.wantText("newsletter")
	browsertest.Evaluate[bool](p.Tab, `(document.querySelectorAll("summary")[1].click(), true)`)
	own := s.partner.login(t).get(t, "/api/v1/partner/programs/"+s.program).wantStatus(http.StatusOK)
	p.Find("image", "QR code of "+own.text("participation.shortUrl"))
	p.savePicture("links", wholePage)
	p.open("/portal/commissions/" + s.largestCommission(t))
	p.wantText("20% of $98.40 = $19.68")
	p.savePicture("commission", wholePage)
	p.open("/portal/payouts/" + payout)
	p.wantText("The merchant has paid the amount.")
	p.savePicture("payout", wholePage)

	p = newPictureTab(ctx, t, sys, browsertest.User{Name: "phone", Width: 360}, s.partner)
	p.setAppearance("dark")
	p.wantChart()
	p.savePicture("phone", chromedp.CaptureScreenshot())
}

// openShop creates a shop with a programme and a public page, and a partner who has joined this
// programme and one of another shop.
func (sys *system) openShop(ctx context.Context, t *testing.T) pictureShop {
	t.Helper()
	merchant := sys.register(t, "merchant", object{"email": "mia@northside.example", "name": "Mia Larsen", "workspaceName": "Northside Coffee"})
	partner := sys.register(t, "partner", object{"email": "lena@morningcup.example", "name": "Lena Hartmann", "country": "US"})
	sys.verify(t, merchant, partner)
	partner.patch(t, "/api/v1/partner/payout-method", object{
		"method": "bank_transfer", "account": "DE89370400440532013000", "accountHolder": "Lena Hartmann", "password": password,
	}).wantStatus(http.StatusOK)
	merchant.do(t, http.MethodPut, brandingPath, object{
		"slug": "northside", "portalName": "Northside Coffee", "accentColor": "#8a4b2a", "supportEmail": "partners@northside.example",
		"websiteUrl": "https://northside.example", "privacyUrl": "https://northside.example/privacy",
	}).wantStatus(http.StatusOK)
	merchant.do(t, http.MethodPut, brandingPath+"/logo", renderLogo(ctx, t)).wantStatus(http.StatusOK)

	s := pictureShop{fixture: fixture{sys: sys, merchant: merchant, partner: partner, code: "morningcup"}}
	other := sys.register(t, "merchant", object{"email": "tom@paperpine.example", "name": "Tom Reyes", "workspaceName": "Paper & Pine"})
	s.other = fixture{sys: sys, merchant: other, partner: partner, code: "lena"}
	s.other.program = other.createProgram(t, object{
		"name": "Paper & Pine partners", "websiteUrl": "https://paperpine.example",
		"commissionRules": object{"commissionType": "flat", "flatAmountCents": 800, "holdPeriodDays": 0, "autoApproval": false},
	})
	s.other = s.other.join(t, nil)

	s.program = merchant.createProgram(t, object{
		"name": "Friends of Northside", "slug": "friends", "websiteUrl": "https://northside.example",
		"description": "We roast coffee in small batches, every Tuesday, and send it to people who care.",
		"publicText": "Do you write, film or talk about coffee? Tell your readers which of our beans you like. You earn a share of each order " +
			"that comes through your link.\n\nWe send you a bag of every new roast, and we answer your questions within a day.",
		"termsText":      "Say clearly that you earn from your links. Do not bid on our name in search engines. Do not write in our name.",
		"minPayoutCents": 2500, "attributionWindowDays": 30,
		"commissionRules": object{
			"percentage": 20, "laterPercentage": 10, "recurring": object{"maxMonths": 12}, "holdPeriodDays": holdDays, "minOrderCents": 1000,
		},
		"applicationQuestions": []object{
			{"key": "site", "label": "Where do you write or speak about coffee?", "type": "url", "required": true},
			{"key": "plan", "label": "How will you tell people about us?", "type": "long_text"},
		},
	})
	s.fixture = s.join(t, object{"site": "https://morningcup.example"})
	merchant.post(t, s.programPath()+"/promo-codes", object{
		"participantId": s.participant, "code": "MORNINGCUP10", "discountType": "percentage", "discountValue": 10,
	}).wantStatus(http.StatusCreated)
	for _, link := range []object{
		{"code": "newsletter-cup", "destinationUrl": "https://northside.example/subscription", "subId": "newsletter"},
		{"code": "grinder-test", "destinationUrl": "https://northside.example/grinders", "subId": "grinder-review"},
	} {
		link["programId"] = s.program
		partner.post(t, "/api/v1/partner/links", link).wantStatus(http.StatusCreated)
	}
	return s
}

// pictureShop is the shop in the pictures, with its partner.
type pictureShop struct {
	fixture
	// other is a programme of another merchant in which the partner takes part.
	other fixture
}

// register registers an account in live mode.
func (sys *system) register(t *testing.T, kind string, profile object) caller {
	t.Helper()
	profile["password"] = password
	session := sys.client().post(t, "/api/v1/auth/"+kind+"/register", profile).wantStatus(http.StatusCreated)
	return sys.account(kind, session.text("user.email"), session).inMode("live")
}

// join makes the partner an approved partner of the programme. It returns the fixture with the
// participation and the keys of the merchant.
func (f fixture) join(t *testing.T, answers object) fixture {
	t.Helper()
	application := object{"referralCode": f.code, "acceptTerms": true, "answers": answers}
	f.participant = f.partner.post(t, f.applyPath(), application).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.participantPath()+"/approve", nil).wantStatus(http.StatusOK)
	f.publicKey, f.secretKey = f.merchant.publicKey(t), f.merchant.createSecretKey(t)
	return f
}

// shopEvent is what happens in the shop at a time.
type shopEvent struct {
	at time.Time
	do func()
}

// trade lets the days of the shop pass, with their clicks, sales and a payout. It returns the id
// of the payout.
func (s pictureShop) trade(t *testing.T) (payout string) {
	t.Helper()
	var events []shopEvent
	add := func(at time.Duration, do func()) { events = append(events, shopEvent{shopOpens.Add(at), do}) }
	clicks := [...]int{7, 9, 6, 11, 8, 5, 4} // of the days of a week
	for n := shopDays - chartDays; n < shopDays; n++ {
		add(time.Duration(n)*day, func() {
			for range clicks[n%len(clicks)] + n/8 {
				s.visit(t, s.code)
			}
			s.visit(t, "newsletter-cup")
			if n%3 == 0 {
				s.visit(t, "grinder-test")
			}
		})
	}
	codes := [...]string{s.code, s.code, "newsletter-cup", s.code, "grinder-test", s.code}
	for i, sale := range shopSales {
		sold := time.Duration(sale.day)*day + time.Duration(1+i%7)*time.Hour + time.Duration(i*7%60)*time.Minute
		var click string
		add(sold-25*time.Hour-12*time.Minute, func() { click = s.visit(t, codes[i%len(codes)]) })
		add(sold, func() {
			s.reportSale(t, click, object{"external_transaction_id": fmt.Sprintf("NS-%d", 1042+3*i), "amount_cents": sale.cents})
		})
		if sale.day+holdDays < shopDays {
			add(sold+holdDays*day+2*time.Minute, func() { s.waitUntilApproved(t, i+1) })
		}
	}
	for i, n := range []int{shopDays - 10, shopDays - 5} {
		add(time.Duration(n)*day+5*time.Hour, func() { // the other shop reviews each sale
			s.other.reportSale(t, s.other.click(t), object{"external_transaction_id": fmt.Sprintf("PP-%d", 311+i)})
		})
	}
	add(payoutDay*day, func() { payout = s.pay(t) })
	add((shopDays-1)*day+9*time.Hour, func() {
		s.partner.login(t).post(t, "/api/v1/partner/notifications/read-all", object{}).wantStatus(http.StatusOK)
		s.report(t, object{ // a purchase with the promo code, without a click
			"event_type": "purchase", "external_transaction_id": "NS-1190", "amount_cents": 5600, "currency": "USD", "promo_code": "MORNINGCUP10",
		}).wantStatus(http.StatusCreated)
	})
	slices.SortStableFunc(events, func(a, b shopEvent) int { return a.at.Compare(b.at) })
	for _, event := range events {
		s.sys.clock.advance(event.at.Sub(s.sys.clock.now()))
		event.do()
	}
	chart := shopOpens.Truncate(day).Add((shopDays - chartDays) * day)
	clicked := s.sys.count(t, `select count(*) from clicks where clicked_at >= $1`, chart)
	eventually(t, waitTimeout, "the clicks are in the analytics", func() error {
		if got := s.partner.login(t).get(t, "/api/v1/partner/analytics/summary").number("metrics.clicks"); got != int64(clicked) {
			return fmt.Errorf("they have %d of %d", got, clicked)
		}
		return nil
	})
	return payout
}

// visitors is the number of visitors of the shop.
var visitors int

// visit registers the click of a new visitor.
func (s pictureShop) visit(t *testing.T, code string) (click string) {
	t.Helper()
	visitors++
	visitor := s.sys.client().withCredential(s.publicKey).withHeader("User-Agent", browserUserAgent).
		fromAddress(fmt.Sprintf("198.51.%d.%d", 100+visitors/250, 1+visitors%250))
	eventually(t, waitTimeout, "the collector accepts a click", func() error {
		got := visitor.send(t, http.MethodPost, s.sys.edge+"/v1/clicks", object{"referral_code": code, "url": "https://northside.example/"})
		if got.status != http.StatusCreated {
			return errors.New(got.body)
		}
		click = got.text("click_id")
		return nil
	})
	return click
}

// pay pays what the partner is owed, with a bonus. It returns the id of the payout.
func (s pictureShop) pay(t *testing.T) string {
	t.Helper()
	merchant := s.merchant.login(t)
	merchant.post(t, s.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 1500, "reason": "First month"}).wantStatus(http.StatusCreated)
	batch := merchant.withHeader("Idempotency-Key", "pictures").post(t, "/api/v1/payouts/batches", object{}).wantStatus(http.StatusCreated).text("id")
	merchant.post(t, "/api/v1/payouts/batches/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
	merchant.post(t, "/api/v1/payouts/batches/"+batch+"/process", nil).wantStatus(http.StatusOK)
	id := merchant.get(t, "/api/v1/payouts?batchId="+batch).wantStatus(http.StatusOK).text("data.0.id")
	merchant.patch(t, "/api/v1/payouts/"+id+"/mark-paid", object{"reference": "NORTHSIDE 2026-02"}).wantStatus(http.StatusOK)
	return id
}

// waitUntilApproved waits until a number of commissions, whose holds have ended, are approved or
// paid.
func (s pictureShop) waitUntilApproved(t *testing.T, want int) {
	t.Helper()
	merchant := s.merchant.login(t)
	s.sys.enqueue(t, commission.ApproveDueCommissions{})
	eventually(t, waitTimeout, "the service approves a commission", func() error {
		all := merchant.get(t, s.programPath()+"/commissions?pageSize=1").number("total")
		pending := merchant.get(t, s.programPath()+"/commissions?pageSize=1&status=pending").number("total")
		if all-pending != int64(want) {
			return fmt.Errorf("%d of %d commissions are pending, want %d approved", pending, all, want)
		}
		return nil
	})
}

// largestCommission returns the id of the commission in the pictures: that of the largest order.
func (s pictureShop) largestCommission(t *testing.T) string {
	t.Helper()
	list := s.partner.login(t).get(t, "/api/v1/partner/commissions?programId="+s.program+"&sortBy=amountCents&pageSize=1")
	return list.wantStatus(http.StatusOK).text("data.0.id")
}

// renderLogo returns the logo as a PNG file.
func renderLogo(ctx context.Context, t *testing.T) string {
	t.Helper()
	const almostTransparent = 0.001 // 0 is the default, which is not transparent
	ctx, cancel := chromedp.NewContext(ctx)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.EmulateViewport(440, 96), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDefaultBackgroundColorOverride, emulation.SetDefaultBackgroundColorOverrideParams{Color: &cdp.RGBA{A: almostTransparent}})
		return err
	}), chromedp.Navigate("data:text/html;base64,"+base64.StdEncoding.EncodeToString([]byte(shopLogo))))
	if err != nil {
		t.Fatal(err)
	}
	logo, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	return string(logo)
}

// newPictureTab opens a tab in which the partner is logged in, in live mode.
func newPictureTab(ctx context.Context, t *testing.T, sys *system, u browsertest.User, partner caller) *tab {
	t.Helper()
	p := newTab(ctx, t, sys, u)
	browsertest.Command(p.Tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	p.open("/portal/login")
	p.logIn(partner.email, password)
	p.Find("navigation", "")
	return p
}

// wantChart waits until the page shows the chart with its two lines and its columns.
func (p *tab) wantChart() {
	p.Helper()
	chart := p.Find("image", "Last 30 days: Clicks, Conversions, Earnings")
	p.Eventually("the chart is drawn", func() error {
		if lines := browsertest.Call[int](p.Tab, chart, `function() { return this.querySelectorAll("path.recharts-area-curve").length; }`); lines != 2 {
			return fmt.Errorf("it has %d lines", lines)
		}
		if columns := browsertest.Call[int](p.Tab, chart, `function() { return this.querySelectorAll(".recharts-bar-rectangle path").length; }`); columns == 0 {
			return errors.New("it has no columns")
		}
		return nil
	})
}

// wholePage makes a picture of a page with all that is below the edge of the window.
var wholePage = chromedp.FullScreenshot(100)

// savePicture writes a picture of the page, with a palette, so that the file is small.
func (p *tab) savePicture(name string, screenshot chromedp.Action[[]byte]) {
	p.Helper()
	browsertest.Evaluate[bool](p.Tab, `(async () => {
		document.body.style.fontFamily = "Inter, system-ui, sans-serif"; // the same on all machines
		document.activeElement.blur();
		await document.fonts.ready;
		for (let frames = 0; frames < 10; frames++) await new Promise(requestAnimationFrame); // the chart adapts to its size
		return true;
	})()`)
	picture, err := chromedp.Run(p.Page, screenshot)
	if err != nil {
		p.Fatal(err)
	}
	if err := os.MkdirAll(picturesFolder, 0o755); err != nil { //nolint:gosec // pictures are not secret
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(picturesFolder, name+".png"), withPalette(p.T, picture), 0o644); err != nil { //nolint:gosec // pictures are not secret
		p.Fatal(err)
	}
}

// withPalette returns a PNG file with at most 256 colours: the most frequent ones of the picture.
// Each other pixel gets the colour that is nearest to its own.
func withPalette(t *testing.T, file []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	bounds := picture.Bounds()
	count := map[color.Color]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	const maxColors = 256
	palette := color.Palette(colors[:min(len(colors), maxColors)])
	index := map[color.Color]uint8{}
	for _, c := range colors {
		index[c] = uint8(palette.Index(c)) //nolint:gosec // the palette has at most 256 colours
	}
	small := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, index[picture.At(x, y)])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
