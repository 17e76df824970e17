package collector

import "testing"

func TestPaidPlatform_IsRecognisedByParameterName(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"https://shop.example/p?gclid=Cj0K", "google"},
		{"https://shop.example/p?utm_source=x&gbraid=0AAA&b=c", "google"},
		{"https://shop.example/?wbraid=1", "google"},
		{"https://shop.example/?dclid=1#top", "google"},
		{"https://shop.example/?msclkid=1", "microsoft"},
		{"https://shop.example/?ttclid=1", "tiktok"},
		{"https://shop.example/?twclid=1", "x"},
		{"https://shop.example/?li_fat_id=1", "linkedin"},
		{"https://shop.example/?epik=1", "pinterest"},
		{"https://shop.example/?rdt_cid=1", "reddit"},
		{"https://shop.example/?ScCid=1", "snapchat"},
		{"https://shop.example/?yclid=1", "yandex"},
		{"https://shop.example/?ttclid=1&gclid=2", "tiktok"},
		{"https://shop.example/?gclid", "google"}, // the script sends only the name
		{"https://shop.example/?gclid=", "google"},

		{"", ""},
		{"https://shop.example/gclid=1", ""},
		{"https://shop.example/p", ""},
		{"https://shop.example/p?", ""},
		{"https://shop.example/p?&&", ""},
		{"https://shop.example/p?xgclid=1&gclid2=1&GCLID=1", ""},
		{"https://shop.example/p?q=gclid=1", ""},
		{"https://shop.example/p?q=1#?gclid=1", ""},
		{"https://shop.example/p#?gclid=1", ""},
		{"https://shop.example/p?fbclid=IwAR", ""}, // a share, not an ad
	} {
		if got := paidPlatform(queryOf(c.url)); got != c.want {
			t.Errorf("paidPlatform of %s = %q, want %q", c.url, got, c.want)
		}
	}
}
