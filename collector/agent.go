package collector

import (
	"strconv"
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/mileusna/useragent"
)

const (
	// maxAgent is the largest number of bytes of a user agent that the collector reads.
	// User agents of browsers inside apps have about 400 bytes.
	maxAgent = 512
	// maxCachedAgents bounds the cache of parsed user agents. The longest entries take
	// about 800 bytes.
	maxCachedAgents = 10_000
)

// Kinds of devices. The kind of other devices (televisions, consoles) is the empty
// string.
const (
	deviceDesktop = "desktop"
	deviceMobile  = "mobile"
	deviceTablet  = "tablet"
)

// agent is a parsed user agent. The values of device, browser and os come from fixed
// lists, never from the client's text.
type agent struct {
	text                string
	device, browser, os string
	// bot is the value of bot_reason that the text implies. It is empty if the text does not
	// look like a bot.
	bot      string
	lastHash atomic.Pointer[agentHash]
}

type agentHash struct {
	monthNumber int
	sum         [hashSize]byte
}

// hash returns the hash of the agent for the month of the hasher. It caches the hash,
// because computing it takes longer than writing the rest of a click record.
func (a *agent) hash(hasher *monthHasher) [hashSize]byte {
	if cached := a.lastHash.Load(); cached != nil && cached.monthNumber == hasher.number {
		return cached.sum
	}
	computed := &agentHash{hasher.number, hasher.sum("ua", []byte(a.text))}
	a.lastHash.Store(computed)
	return computed.sum
}

// agentCache caches parsed user agents. Its size is bounded, because clients can invent
// agents.
type agentCache struct{ parsed *lru.Cache[string, *agent] }

func newAgentCache() *agentCache { return &agentCache{newCache[string, *agent](maxCachedAgents)} }

// parse parses a User-Agent header. It ignores everything after maxAgent bytes.
func (a *agentCache) parse(text string) *agent {
	text = text[:min(len(text), maxAgent)]
	if cached, ok := a.parsed.Peek(text); ok {
		return cached
	}
	// Store a copy, because text may be part of a larger string. Otherwise the cache
	// would keep that larger string in memory.
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

const otherName = "other"

// browsers maps the browser names of package useragent to the names in click records.
var browsers = map[string]string{
	"Chrome": "Chrome", "Safari": "Safari", "Firefox": "Firefox", "Edge": "Edge",
	"Opera": "Opera", "Opera Touch": "Opera", "Opera Mini": "Opera Mini", "Samsung Browser": "Samsung Internet",
	"Internet Explorer": "Internet Explorer", "Vivaldi": "Vivaldi", "Huawei Browser": "Huawei Browser",
	"Miui Browser": "Miui Browser", "Android browser": "Android Browser",
}

// browserTokens are parts of agents by which the collector recognises browsers that
// package useragent does not recognise on all systems. Most of them are browsers inside
// apps.
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
	for _, token := range browserTokens {
		if strings.Contains(text, token.part) {
			return token.browser
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

// systems maps the system names of package useragent to the names in click records.
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

// tvTokens are parts of the agents of televisions and consoles. These agents may also
// contain the names of other devices.
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
	// By Android's convention, the agents of browsers on phones contain Mobile, and those
	// on tablets do not.
	case parsed.OS == useragent.Android && strings.HasPrefix(lower, "mozilla/") && !strings.Contains(lower, "mobile"):
		return deviceTablet
	case parsed.Mobile:
		return deviceMobile
	case parsed.Desktop:
		return deviceDesktop
	}
	return ""
}

// iosOnlyTokens are names that browsers use only on iPhones and iPads. If the agent of a
// Mac contains one of these names, the device is an iPad that requests desktop pages.
var iosOnlyTokens = []string{"CriOS/", "FxiOS/", "EdgiOS/", "OPiOS/", "OPT/", " GSA/"}

// maxTabletWidth is the width of the largest iPad in portrait, in CSS pixels.
const maxTabletWidth = 1032

// deviceAndSystem returns the device and system of an agent. screen is the screen size
// that the script reported, such as 1024x1366. Safari on an iPad sends the user agent of
// a Mac, but an iPad reports its size in portrait, and no Mac has such a narrow screen in
// portrait.
func (a *agent) deviceAndSystem(screen string) (device, os string) {
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

// Values of the field bot_reason of a click record. The field is empty if neither the user agent
// looks like a bot nor the page was prefetched. Clicks of bots are not refused, because some of
// them are wanted: test clients have the agents of HTTP libraries, and so do servers that send
// clicks for their visitors.
const (
	// botNoAgent means that there is no user agent. Browsers always send one.
	botNoAgent = "no_agent"
	// botMonitor is a service that measures the availability or the speed of a site.
	botMonitor = "monitor"
	// botPreview is a service that creates the preview of a link in a message.
	botPreview = "preview"
	// botHeadless is a browser without a screen.
	botHeadless = "headless"
	// botLibrary is an HTTP library or tool. Merchants' apps whose agents begin with the name
	// of a library (such as okhttp) are not distinguished from it.
	botLibrary = "library"
	// botCrawler is a web crawler.
	botCrawler = "crawler"
	// botPrefetch means that a browser fetched the page in advance.
	botPrefetch = "prefetch"
)

// Parts of the agents of bots, in lower case. Some parts are a product name followed by a
// slash. The slash prevents matches inside other words.
var (
	monitors = []string{
		"uptime", "pingdom", "statuscake", "site24x7", "datadogsynthetics", "datadog/synthetics", "newrelicpinger", "newrelicsynthetics", "better stack", "checkly",
		"hetrixtools", "freshping", "healthcheck", "health-check", "googlehc", "stackdriver", "kube-probe", "blackbox exporter",
		"zabbix", "nagios", "monitoring-plugins", "check_http", "catchpoint", "ruxitsynthetic", "updown.io", "jetmon", "ohdear",
		"lighthouse", "gtmetrix", "pagespeed", "ptst/",
	}
	previews = []string{
		"facebookexternalhit", "facebookcatalog", "twitterbot", "slackbot", "slack-imgproxy", "telegrambot", "discordbot", "linkedinbot",
		"pinterestbot", "redditbot", "skypeuripreview", "bingpreview", "microsoftpreview", "google-pagerenderer", "snap url preview",
		"viberbot", "line-poker", "kakaotalk-scrap", "vkshare", "mastodon/", "cardyb", "embedly", "iframely", "bitlybot", "zoombot",
	}
	headless = []string{
		"headless", "phantomjs", "slimerjs", "puppeteer", "playwright", "selenium", "webdriver", "cypress/", "htmlunit", "jsdom",
	}
	// libraryParts are parts of the agents of those libraries whose agents begin with Mozilla.
	libraryParts = []string{"windowspowershell/", "winhttp", "google-apps-script"}
	crawlers     = []string{
		"crawl", "spider", "slurp", "scrapy", "mediapartners-google", "apis-google", "google-inspectiontool", "googleother",
		"google-extended", "google-read-aloud", "googleprober", "googleproducer", "feedfetcher", "feedburner", "feedly", "ia_archiver",
		"heritrix", "nutch", "chatgpt-user", "claude-user", "claude-web",
		"anthropic-ai", "perplexity-user", "meta-external", "cohere-ai", "censysinspect", "zgrab", "masscan",
		"nuclei", "nikto", "sqlmap", "internetmeasurement", "screaming frog", "sitebulb", "validator",
		// By convention only robots have a URL in their agent.
		"http://", "https://",
	}
)

// libraries contains the first words of the agents of HTTP libraries, in lower case.
var libraries = wordSet(`
	curl libcurl pycurl wget aria2 httpie xh hurl lwp-trivial lwp-request libwww-perl libwww
	python python-requests python-urllib python-urllib3 python-httpx aiohttp httpx urllib
	go-http-client fasthttp go-resty resty req
	java java-http-client apache-httpclient apache-httpasyncclient jakarta okhttp reactornetty ahc jersey jetty akka-http unirest-java spring
	axios node node-fetch undici got node-superagent superagent deno bun needle
	guzzlehttp php symfony zend_http_client wordpress
	ruby faraday rest-client http.rb typhoeus httparty mechanize
	dart reqwest hyper ureq isahc hackney mint finch cpp-httplib lua-resty-http restsharp winhttp
	postmanruntime insomnia bruno-runtime thunder paw rapidapi
	k6 artillery apachebench jmeter gatling vegeta hey azure-logic-apps zapier n8n`)

// botReason returns the bot_reason of an agent in lower case, or "". More specific
// reasons come first, because the agents of many monitors and previews also contain
// "bot".
func botReason(agent string) string {
	switch {
	case strings.TrimSpace(agent) == "":
		return botNoAgent
	case containsAny(agent, monitors):
		return botMonitor
	// These apps begin the agent with their name when they fetch a preview. When they
	// show a page to a visitor, the name comes later in the agent.
	case strings.HasPrefix(agent, "whatsapp/"), strings.HasPrefix(agent, "pinterest/"), strings.HasPrefix(agent, "viber/"), containsAny(agent, previews):
		return botPreview
	case containsAny(agent, headless):
		return botHeadless
	case libraries[firstWord(agent)], containsAny(agent, libraryParts):
		return botLibrary
	case namesBot(agent), containsAny(agent, crawlers):
		return botCrawler
	}
	return ""
}

// namesBot reports whether a word of the agent ends in "bot". It ignores Cubot, a brand
// of phones.
func namesBot(agent string) bool {
	for {
		before, after, found := strings.Cut(agent, "bot")
		if !found {
			return false
		}
		if (after == "" || after[0] < 'a' || after[0] > 'z') && !strings.HasSuffix(before, "cu") {
			return true
		}
		agent = after
	}
}

func firstWord(agent string) string {
	if end := strings.IndexAny(agent, "/ (;,"); end >= 0 {
		return agent[:end]
	}
	return agent
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}
