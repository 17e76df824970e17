package collector

import "strings"

// paidPlatform returns the ad platform that led the visitor to a URL with the given
// query. An ad platform adds a parameter with a click id of its own to the URL of an ad.
// paidPlatform returns "" if the query has no such parameter, and the platform of the
// first one if it has several. It checks only whether the parameter is present. The value
// of the parameter is neither stored nor logged. The parameter fbclid does not count,
// because Facebook adds it to every shared link.
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

// queryOf returns the query of a URL, without its fragment.
func queryOf(url string) string {
	url, _, _ = strings.Cut(url, "#")
	_, query, _ := strings.Cut(url, "?")
	return query
}

// adPlatform returns the ad platform that uses a parameter of this name for its click
// ids, or "".
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
