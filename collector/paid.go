package collector

import "strings"

// paidPlatform names the ad platform whose click id is in a query; empty when
// there is none, and of several the first. That the id is there is all that is
// read: its value is neither kept nor logged. fbclid is none: Facebook adds it to
// every link that somebody shares.
func paidPlatform(query string) string {
	for query != "" {
		var param string
		param, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(param, "=")
		if platform := adPlatform(name); platform != "" {
			return platform
		}
	}
	return ""
}

// queryOf is what of a URL is between its question mark and its fragment.
func queryOf(url string) string {
	url, _, _ = strings.Cut(url, "#")
	_, query, _ := strings.Cut(url, "?")
	return query
}

// adPlatform is whose click ids come in a query parameter of this name.
func adPlatform(name string) string {
	switch name {
	case "gclid", "gbraid", "wbraid", "dclid":
		return "google"
	case "msclkid":
		return "microsoft"
	case "ttclid":
		return "tiktok"
	case "twclid":
		return "x"
	case "li_fat_id":
		return "linkedin"
	case "epik":
		return "pinterest"
	case "rdt_cid":
		return "reddit"
	case "ScCid", "sccid":
		return "snapchat"
	case "yclid":
		return "yandex"
	}
	return ""
}
