package httpedge_test

import (
	"testing"

	"github.com/tributary-hq/tributary/httpedge"
)

func TestParseOrigins_AcceptsTheFormOfBrowsers(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"https://app.example": true, "https://app.example:8443": true, "http://127.0.0.1:8082": true, "http://[::1]:8082": true,
		"https://app.example:80": true, "http://app.example:443": true, "https://xn--bcher-kva.example": true,
		"": false, "null": false, "app.example": false, "ftp://app.example": false, "https://": false, "https://app.example/": false,
		"https://App.example": false, "HTTPS://app.example": false, "https://*.example": false, "https://user@app.example": false,
		"https://app.example:443": false, "http://app.example:80": false, "http://[::1]:80": false, "https://app.example:": false,
		"https://bücher.example": false,
	} {
		set, err := httpedge.ParseOrigins([]string{origin})
		if (err == nil) != valid || valid && !set[origin] {
			t.Errorf("ParseOrigins(%q) = %v, %v; want valid = %v", origin, set, err, valid)
		}
	}
}
