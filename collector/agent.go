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
	// rememberAgents bounds the cache of parsed user agents. The longest entries take
	// about 800 bytes.
	rememberAgents = 10_000
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
	month int
	sum   [hashSize]byte
}

// hash returns the agent's hash of a month. It is cached because it costs more than
// the rest of a record.
func (a *agent) hash(of *monthly) [hashSize]byte {
	if kept := a.hashed.Load(); kept != nil && kept.month == of.month {
		return kept.sum
	}
	made := &agentHash{of.month, of.sum("ua", []byte(a.text))}
	a.hashed.Store(made)
	return made.sum
}

// agents caches parsed user agents. Clients make agents up, so it is bounded.
type agents struct{ known *lru.Cache[string, *agent] }

func newAgents() *agents { return &agents{newCache[string, *agent](rememberAgents)} }

// of parses a User-Agent header. It ignores everything after maxAgent bytes.
func (a *agents) of(text string) *agent {
	text = text[:min(len(text), maxAgent)]
	if known, ok := a.known.Peek(text); ok {
		return known
	}
	// text may be part of a larger string, which the cache would keep: store a copy.
	made := classify(strings.Clone(text))
	a.known.Add(made.text, made)
	return made
}

// classify parses an agent of at most maxAgent bytes.
func classify(text string) *agent {
	a := &agent{text: text}
	lower := strings.ToLower(text)
	a.bot = botReason(lower)
	if a.bot == botNoAgent {
		return a
	}
	read := useragent.Parse(text)
	a.os, a.browser = systemOf(text, read), browserOf(text, read)
	a.device = deviceOf(lower, read)
	if a.os == useragent.MacOS && containsAny(text, iosOnly) {
		a.os, a.device = useragent.IOS, deviceTablet
	}
	return a
}

// other is the word for names that are not among ours.
const other = "other"

// browsers are the names that the library finds and ours for them.
var browsers = map[string]string{
	"Chrome": "Chrome", "Safari": "Safari", "Firefox": "Firefox", "Edge": "Edge",
	"Opera": "Opera", "Opera Touch": "Opera", "Opera Mini": "Opera Mini", "Samsung Browser": "Samsung Internet",
	"Internet Explorer": "Internet Explorer", "Vivaldi": "Vivaldi", "Huawei Browser": "Huawei Browser",
	"Miui Browser": "Miui Browser", "Android browser": "Android Browser",
}

// marks are parts of agents that the library passes over on one system or
// another: mostly those of browsers inside apps.
var marks = []struct{ part, browser string }{
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

func browserOf(text string, read useragent.UserAgent) string {
	for _, mark := range marks {
		if strings.Contains(text, mark.part) {
			return mark.browser
		}
	}
	if name := browsers[read.Name]; name != "" {
		if name == "Chrome" && strings.Contains(text, "; wv)") {
			return "Android WebView"
		}
		return name
	}
	return other
}

var systems = map[string]string{
	useragent.Windows: "Windows", useragent.WindowsPhone: "Windows Phone", useragent.Android: "Android", useragent.MacOS: "macOS",
	useragent.IOS: "iOS", useragent.Linux: "Linux", useragent.FreeBSD: "FreeBSD", useragent.ChromeOS: "ChromeOS",
	useragent.BlackBerry: "BlackBerry", useragent.Harmony: "HarmonyOS",
}

func systemOf(text string, read useragent.UserAgent) string {
	switch name := systems[read.OS]; {
	case strings.Contains(text, "Tizen"), strings.Contains(text, "Web0S"):
		return other
	case name != "":
		return name
	case read.OS != "":
		return other
	}
	return ""
}

// screens are televisions and consoles. They may call themselves anything else
// besides.
var screens = []string{
	"smart-tv", "smarttv", "smart tv", "googletv", "google tv", "android tv", "appletv", "apple tv", "hbbtv", "web0s", "netcast", "viera",
	"bravia", "; aft", "crkey", "roku", "playstation", "nintendo", "xbox",
}

func deviceOf(lower string, read useragent.UserAgent) string {
	switch {
	case containsAny(lower, screens):
		return ""
	case read.Tablet:
		return deviceTablet
	// Android's own rule: browsers on phones say Mobile, those on tablets do not.
	case read.OS == useragent.Android && strings.HasPrefix(lower, "mozilla/") && !strings.Contains(lower, "mobile"):
		return deviceTablet
	case read.Mobile:
		return deviceMobile
	case read.Desktop:
		return deviceDesktop
	}
	return ""
}

// iosOnly are names that browsers have on phones and tablets of Apple alone, so
// a Mac that has one is a tablet that asks for desktop pages.
var iosOnly = []string{"CriOS/", "FxiOS/", "EdgiOS/", "OPiOS/", "OPT/", " GSA/"}

// widestTablet is the largest iPad's width in portrait, in CSS pixels.
const widestTablet = 1032

// on is the device and system of an agent in front of a screen, as the script
// reports it (1024x1366). An iPad's Safari says in every header that it is a
// Mac's, but no Mac has its screen: iPads report theirs in portrait.
func (a *agent) on(screen string) (device, os string) {
	if a.os == useragent.MacOS && a.browser == "Safari" && screen != "" {
		width, height, _ := strings.Cut(screen, "x")
		w, errWidth := strconv.ParseUint(width, 10, 16)
		h, errHeight := strconv.ParseUint(height, 10, 16)
		if errWidth == nil && errHeight == nil && w < h && w <= widestTablet {
			return deviceTablet, useragent.IOS
		}
	}
	return a.device, a.os
}
