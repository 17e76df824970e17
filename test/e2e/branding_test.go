package e2e_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
)

const brandingPath = workspacePath + "/branding"

// pngFile returns a PNG file of one colour.
func pngFile(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func testBranding(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	slug := uniqueName("brand")
	body := object{
		"portalName": " Acme Partners ", "slug": slug, "accentColor": "#FFE600", "supportEmail": "partners@acme.example",
		"websiteUrl": "https://acme.example", "locale": "de",
	}
	stored := object{
		"portalName": "Acme Partners", "slug": slug, "accentColor": "#ffe600", "palette.light.color": "#a69600", "palette.light.textColor": "#000000",
		"palette.dark.color": "#ffe600", "supportEmail": "partners@acme.example", "websiteUrl": "https://acme.example",
		"termsUrl": nil, "privacyUrl": nil, "locale": "de", "logoUrl": nil,
	}
	owner.do(t, http.MethodPut, brandingPath, body).wantStatus(http.StatusOK).wantFields(stored)
	owner.addMember(t, "viewer").get(t, brandingPath).wantStatus(http.StatusOK).wantFields(stored)

	before := owner.get(t, brandingPath).body
	owner.do(t, http.MethodPut, brandingPath, object{"slug": "x", "supportEmail": "none", "accentColor": "red", "locale": "fr", "nope": 1}).
		wantError(http.StatusBadRequest, "VALIDATION_ERROR", "slug", "supportEmail", "accentColor", "locale", "nope")
	sys.newMerchant(t).do(t, http.MethodPut, brandingPath, object{"slug": slug}).wantError(http.StatusConflict, "SLUG_TAKEN")
	for _, file := range []string{"", "{}", `<svg xmlns="http://www.w3.org/2000/svg"/>`} {
		owner.do(t, http.MethodPut, brandingPath+"/logo", file).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
	}
	owner.do(t, http.MethodPut, brandingPath+"/logo", strings.Repeat("x", 256<<10+1)).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	if after := owner.get(t, brandingPath).body; after != before {
		t.Errorf("invalid requests have changed the branding:\nbefore %s\nafter  %s", before, after)
	}

	url := owner.do(t, http.MethodPut, brandingPath+"/logo", pngFile(t, 40, 20)).wantStatus(http.StatusOK).text("logoUrl")
	logo := url[strings.Index(url, "/api/v1/"):]
	got := sys.client().get(t, logo).wantStatus(http.StatusOK)
	for header, want := range map[string]string{
		"Content-Type": "image/png", "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff",
	} {
		if got.header.Get(header) != want {
			t.Errorf("the logo has the header %s %q, want %q", header, got.header.Get(header), want)
		}
	}
	if picture, err := png.Decode(strings.NewReader(got.body)); err != nil || picture.Bounds().Dx() != 40 {
		t.Errorf("the logo is not the picture: %v", err)
	}
	owner.do(t, http.MethodDelete, brandingPath+"/logo", nil).wantStatus(http.StatusNoContent)
	sys.client().get(t, logo).wantOutcome(notFound)
}
