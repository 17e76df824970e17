package branding_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/branding"
	"github.com/tributary-hq/tributary/server/portal"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a shop with the service under test.
type fixture struct {
	*pgtest.Shop
	service *branding.Service
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	shop := pgtest.Open(t, time.Now).NewShop(affiliate.ModeLive)
	return &fixture{shop, branding.New(shop.DB, "https://api.example/", time.Now)}
}

func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

func (f *fixture) put(req *affiliatev1.PutBrandingRequest) (*affiliatev1.Branding, error) {
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.PutBranding(f.asOwner(), req)
}

func (f *fixture) putLogo(file []byte) (*affiliatev1.Branding, error) {
	return f.service.PutLogo(f.asOwner(), &affiliatev1.PutLogoRequest{Body: &httpbody.HttpBody{ContentType: "text/html", Data: file}})
}

func (f *fixture) auditEntries(action string) int {
	f.Helper()
	return len(f.Texts(`select id::text from audit_log where workspace_id = $1 and action = $2`, f.Scope.Workspace, action))
}

func TestPutBranding_ReplacesAllFieldsButTheLogo(t *testing.T) {
	f := newFixture(t)
	full := &affiliatev1.PutBrandingRequest{
		PortalName: proto.String("Acme Partners"), Slug: "acme", AccentColor: proto.String("#00AA88"), SupportEmail: proto.String("help@acme.example"),
		WebsiteUrl: proto.String("https://acme.example"), TermsUrl: proto.String("https://acme.example/terms"),
		PrivacyUrl: proto.String("https://acme.example/privacy"), Locale: affiliatev1.PortalLocale_PORTAL_LOCALE_DE,
	}
	for range 2 { // the second call changes nothing
		if got, err := f.put(full); err != nil || got.GetAccentColor() != "#00aa88" || got.GetPrivacyUrl() != "https://acme.example/privacy" {
			t.Fatalf("PutBranding = %v, %v; want the fields of the request", got, err)
		}
	}
	if n := f.auditEntries("workspace.update_branding"); n != 1 {
		t.Errorf("the audit log has %d entries, want 1", n)
	}
	if audit := strings.Join(f.Texts(`select after::text from audit_log where action = 'workspace.update_branding'`), ""); strings.Contains(audit, "help@") {
		t.Errorf("the audit log has the address: %s", audit)
	}
	if _, err := f.putLogo(pngOf(image.NewGray(image.Rect(0, 0, 2, 2)))); err != nil {
		t.Fatal(err)
	}
	got, err := f.put(&affiliatev1.PutBrandingRequest{Slug: "acme"})
	if err != nil || got.PortalName != nil || got.AccentColor != nil || got.Palette != nil || got.WebsiteUrl != nil ||
		got.GetLocale() != affiliatev1.PortalLocale_PORTAL_LOCALE_EN || got.LogoUrl == nil {
		t.Errorf("PutBranding with only the slug = %v, %v; want the defaults and the logo", got, err)
	}
}

func TestPutBranding_RejectsInvalidFields(t *testing.T) {
	f := newFixture(t)
	for name, test := range map[string]struct {
		change func(*affiliatev1.PutBrandingRequest)
		field  string
	}{
		"no slug":            {func(r *affiliatev1.PutBrandingRequest) { r.Slug = "" }, servertest.Annotations},
		"short slug":         {func(r *affiliatev1.PutBrandingRequest) { r.Slug = "ab" }, servertest.Annotations},
		"capital letters":    {func(r *affiliatev1.PutBrandingRequest) { r.Slug = "Acme" }, servertest.Annotations},
		"hyphen at the end":  {func(r *affiliatev1.PutBrandingRequest) { r.Slug = "acme-" }, servertest.Annotations},
		"reserved slug":      {func(r *affiliatev1.PutBrandingRequest) { r.Slug = "login" }, "slug"},
		"name with a link":   {func(r *affiliatev1.PutBrandingRequest) { r.PortalName = proto.String("www.evil.example") }, "portal_name"},
		"colour by its name": {func(r *affiliatev1.PutBrandingRequest) { r.AccentColor = proto.String("red") }, servertest.Annotations},
		"address with name":  {func(r *affiliatev1.PutBrandingRequest) { r.SupportEmail = proto.String("A <a@b.example>") }, "support_email"},
		"script as URL":      {func(r *affiliatev1.PutBrandingRequest) { r.WebsiteUrl = proto.String("javascript:alert(1)") }, "website_url"},
		"relative URL":       {func(r *affiliatev1.PutBrandingRequest) { r.TermsUrl = proto.String("/terms") }, "terms_url"},
		"URL with password":  {func(r *affiliatev1.PutBrandingRequest) { r.PrivacyUrl = proto.String("https://a:b@acme.example") }, "privacy_url"},
	} {
		req := &affiliatev1.PutBrandingRequest{Slug: "acme"}
		test.change(req)
		_, err := f.put(req)
		t.Run(name, func(t *testing.T) { pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, test.field) })
	}
}

func TestPutBranding_SlugIsUniqueAmongWorkspaces(t *testing.T) {
	f := newFixture(t)
	other := &fixture{f.NewShop(affiliate.ModeTest), f.service}
	if _, err := f.put(&affiliatev1.PutBrandingRequest{Slug: "acme"}); err != nil {
		t.Fatal(err)
	}
	_, err := other.put(&affiliatev1.PutBrandingRequest{Slug: "acme"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
}

func TestPutLogo_StoresPicturesAsPNG(t *testing.T) {
	f := newFixture(t)
	noise := image.NewNRGBA(image.Rect(0, 0, 200, 100))
	for i := range noise.Pix {
		noise.Pix[i] = uint8(rand.N(256))
	}
	wide := image.NewGray(image.Rect(0, 0, 2048, 4))
	for name, test := range map[string]struct {
		file          []byte
		width, height int
	}{
		"PNG with transparency": {pngOf(noise), 200, 100},
		"wide PNG":              {pngOf(wide), 512, 1},
		"lossy WebP":            {webp(t, "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"), 1, 1},
		"lossless WebP":         {webp(t, "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="), 1, 1},
		"PNG with text after":   {append(pngOf(noise), "<script>alert(1)</script>"...), 200, 100},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.putLogo(test.file)
			if err != nil {
				t.Fatal(err)
			}
			digest, ok := strings.CutPrefix(got.GetLogoUrl(), "https://api.example/api/v1/portal/logos/")
			if !ok || len(digest) != 64 {
				t.Fatalf("the address of the logo is %q", got.GetLogoUrl())
			}
			download := servertest.NewDownload(t.Context())
			if err := portal.New(portal.Config{DB: f.DB, Now: time.Now}).GetPortalLogo(&affiliatev1.GetPortalLogoRequest{Digest: digest}, download); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(download.Text(), "script") {
				t.Error("the stored file has the text of the uploaded file")
			}
			stored, err := png.Decode(strings.NewReader(download.Text()))
			if err != nil {
				t.Fatal(err)
			}
			if size := stored.Bounds().Size(); size != image.Pt(test.width, test.height) {
				t.Errorf("the stored picture has the size %v, want %d×%d", size, test.width, test.height)
			}
		})
	}
}

func TestPutLogo_KeepsPixels(t *testing.T) {
	f := newFixture(t)
	picture := image.NewNRGBA(image.Rect(0, 0, 3, 1))
	for x, c := range []color.NRGBA{{255, 0, 0, 255}, {0, 128, 255, 255}, {}} {
		picture.SetNRGBA(x, 0, c)
	}
	if _, err := f.putLogo(pngOf(picture)); err != nil {
		t.Fatal(err)
	}
	stored, err := png.Decode(hex.NewDecoder(strings.NewReader(f.Texts(`select encode(png, 'hex') from workspace_logos`)[0])))
	if err != nil {
		t.Fatal(err)
	}
	for x := range 3 {
		if got, want := color.NRGBAModel.Convert(stored.At(x, 0)), picture.NRGBAAt(x, 0); got != want {
			t.Errorf("pixel %d is %v, want %v", x, got, want)
		}
	}
}

func TestPutLogo_RejectsOtherFiles(t *testing.T) {
	f := newFixture(t)
	var animation bytes.Buffer
	if err := gif.Encode(&animation, image.NewGray(image.Rect(0, 0, 1, 1)), nil); err != nil {
		t.Fatal(err)
	}
	whole := pngOf(image.NewGray(image.Rect(0, 0, 50, 50)))
	for name, file := range map[string][]byte{
		"empty": nil, "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), "GIF": animation.Bytes(),
		"PNG that ends early": whole[:len(whole)-30], "too wide": pngOf(image.NewGray(image.Rect(0, 0, 2049, 1))),
		"too large": append(whole, make([]byte, 256<<10)...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.putLogo(file)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, affiliate.WholeBody)
		})
	}
	if n := f.auditEntries("workspace.put_logo"); n != 0 {
		t.Errorf("the audit log has %d entries, want none", n)
	}
}

func TestDeleteLogo_Repeats(t *testing.T) {
	f := newFixture(t)
	if _, err := f.putLogo(pngOf(image.NewGray(image.Rect(0, 0, 2, 2)))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.service.DeleteLogo(f.asOwner(), &affiliatev1.DeleteLogoRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.auditEntries("workspace.delete_logo"); n != 1 {
		t.Errorf("the audit log has %d entries, want 1", n)
	}
}

func pngOf(picture image.Image) []byte {
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		panic(err)
	}
	return file.Bytes()
}

func webp(t *testing.T, text string) []byte {
	t.Helper()
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
