package collector

import (
	"strconv"
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/mileusna/useragent"
)

const (
	// maxAgent is the number of bytes of a user agent that are read. User agents of
	// browsers inside apps have about 400.
	maxAgent = 512
	// maxCachedAgents bounds the cache of parsed user agents. The longest entries take
	// about 800 bytes.
	maxCachedAgents = 10_000
)

// Kinds of devices. Others (televisions, consoles) are the empty string.
const (
	deviceDesktop = "desktop"
	deviceMobile  = "mobile"
	deviceTablet  = "tablet"
)

// agent is a parsed user agent. Device, browser and os are words of fixed sets,
// whatever the client sent.
type agent struct {
	text                string
	device, browser, os string
	// bot is a bot_reason; empty for an agent that may be a person's.
	bot    string
	hashed atomic.Pointer[agentHash]
}

// agentHash is a month's hash of an agent.
type agentHash struct {
	monthNumber int
	sum         [hashSize]byte
}

// hash returns the agent's hash of a month. It is cached because it costs more than
// the rest of a record.
func (a *agent) hash(month *monthHasher) [hashSize]byte {
	if cached := a.hashed.Load(); cached != nil && cached.monthNumber == month.number {
		return cached.sum
	}
	computed := &agentHash{month.number, month.sum("ua", []byte(a.text))}
	a.hashed.Store(computed)
	return computed.sum
}

// agentCache caches parsed user agents. Clients make agents up, so it is bounded.
type agentCache struct{ parsed *lru.Cache[string, *agent] }

func newAgentCache() *agentCache { return &agentCache{newCache[string, *agent](maxCachedAgents)} }

// parse parses a User-Agent header. It ignores everything after maxAgent bytes.
func (a *agentCache) parse(text string) *agent {
	text = text[:min(len(text), maxAgent)]
	if cached, ok := a.parsed.Peek(text); ok {
		return cached
	}
	// text may be part of a larger string, which the cache would keep: store a copy.
	parsed := classify(strings.Clone(text))
	a.parsed.Add(parsed.text, parsed)
	return parsed
}

// classify parses an agent of at most maxAgent bytes.
func classify(text string) *agent {
	a := &agent{text: text}
	lower := strings.ToLower(text)
	a.bot = botReason(lower)
	if a.bot == botNoAgent {
		return a
	}
	parsed := useragent.Parse(text)
	a.os, a.browser = systemOf(text, parsed), browserOf(text, parsed)
	a.device = deviceOf(lower, parsed)
	if a.os == useragent.MacOS && containsAny(text, iosOnlyTokens) {
		a.os, a.device = useragent.IOS, deviceTablet
	}
	return a
}

// otherName is the word for names that are not among ours.
const otherName = "other"

// browsers are the names that the library finds and ours for them.
var browsers = map[string]string{
	"Chrome": "Chrome", "Safari": "Safari", "Firefox": "Firefox", "Edge": "Edge",
	"Opera": "Opera", "Opera Touch": "Opera", "Opera Mini": "Opera Mini", "Samsung Browser": "Samsung Internet",
	"Internet Explorer": "Internet Explorer", "Vivaldi": "Vivaldi", "Huawei Browser": "Huawei Browser",
	"Miui Browser": "Miui Browser", "Android browser": "Android Browser",
}

// browserTokens are parts of agents that the library passes over on one system or
// another: mostly those of browsers inside apps.
var browserTokens = []struct{ part, browser string }{
	{"Instagram ", "Instagram"},
	{"Barcelona ", "Threads"},
	{"FBAN/", "Facebook"},
	{"FBAV/", "Facebook"},
	{"FB_IAB/", "Facebook"},
	{"MicroMessenger/", "WeChat"},
	{"BytedanceWebview/", "TikTok"},
	{"musical_ly", "TikTok"},
	{"TikTok", "TikTok"},
	{" Line/", "Line"},
	{"KAKAOTALK", "KakaoTalk"},
	{"NAVER(", "Naver"},
	{"Snapchat/", "Snapchat"},
	{"[Pinterest/", "Pinterest"},
	{"LinkedInApp", "LinkedIn"},
	{"Twitter for ", "X"},
	{"TwitterAndroid", "X"},
	{"Telegram-Android/", "Telegram"},
	{" GSA/", "Google App"},
	{"DuckDuckGo/", "DuckDuckGo"},
	{" Ddg/", "DuckDuckGo"},
	{"YaBrowser/", "Yandex Browser"},
	{"UCBrowser/", "UC Browser"},
	{"MiuiBrowser/", "Miui Browser"},
	{"Whale/", "Whale"},
	{"Silk/", "Silk"},
	{" Focus/", "Firefox"},
	{" Klar/", "Firefox"},
	{" OPX/", "Opera"},
}

func browserOf(text string, parsed useragent.UserAgent) string {
	for _, mark := range browserTokens {
		if strings.Contains(text, mark.part) {
			return mark.browser
		}
	}
	if name := browsers[parsed.Name]; name != "" {
		if name == "Chrome" && strings.Contains(text, "; wv)") {
			return "Android WebView"
		}
		return name
	}
	return otherName
}

var systems = map[string]string{
	useragent.Windows: "Windows", useragent.WindowsPhone: "Windows Phone", useragent.Android: "Android", useragent.MacOS: "macOS",
	useragent.IOS: "iOS", useragent.Linux: "Linux", useragent.FreeBSD: "FreeBSD", useragent.ChromeOS: "ChromeOS",
	useragent.BlackBerry: "BlackBerry", useragent.Harmony: "HarmonyOS",
}

func systemOf(text string, parsed useragent.UserAgent) string {
	switch name := systems[parsed.OS]; {
	case strings.Contains(text, "Tizen"), strings.Contains(text, "Web0S"):
		return otherName
	case name != "":
		return name
	case parsed.OS != "":
		return otherName
	}
	return ""
}

// tvTokens are televisions and consoles. They may call themselves anything else
// besides.
var tvTokens = []string{
	"smart-tv", "smarttv", "smart tv", "googletv", "google tv", "android tv", "appletv", "apple tv", "hbbtv", "web0s", "netcast", "viera",
	"bravia", "; aft", "crkey", "roku", "playstation", "nintendo", "xbox",
}

func deviceOf(lower string, parsed useragent.UserAgent) string {
	switch {
	case containsAny(lower, tvTokens):
		return ""
	case parsed.Tablet:
		return deviceTablet
	// Android's own rule: browsers on phones say Mobile, those on tablets do not.
	case parsed.OS == useragent.Android && strings.HasPrefix(lower, "mozilla/") && !strings.Contains(lower, "mobile"):
		return deviceTablet
	case parsed.Mobile:
		return deviceMobile
	case parsed.Desktop:
		return deviceDesktop
	}
	return ""
}

// iosOnlyTokens are names that browsers have on phones and tablets of Apple alone, so
// a Mac that has one is a tablet that asks for desktop pages.
var iosOnlyTokens = []string{"CriOS/", "FxiOS/", "EdgiOS/", "OPiOS/", "OPT/", " GSA/"}

// maxTabletWidth is the largest iPad's width in portrait, in CSS pixels.
const maxTabletWidth = 1032

// deviceOn is the device and system of an agent in front of a screen, as the script
// reports it (1024x1366). An iPad's Safari says in every header that it is a
// Mac's, but no Mac has its screen: iPads report theirs in portrait.
func (a *agent) deviceOn(screen string) (device, os string) {
	if a.os == useragent.MacOS && a.browser == "Safari" && screen != "" {
		width, height, _ := strings.Cut(screen, "x")
		w, errWidth := strconv.ParseUint(width, 10, 16)
		h, errHeight := strconv.ParseUint(height, 10, 16)
		if errWidth == nil && errHeight == nil && w < h && w <= maxTabletWidth {
			return deviceTablet, useragent.IOS
		}
	}
	return a.device, a.os
}
