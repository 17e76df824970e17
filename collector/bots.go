package collector

import "strings"

// Why a click is a bot's: bot_reason has one of these words, or is empty. No bot
// is refused: test clients and servers that call for their visitors have
// library agents.
const (
	// botNoAgent: browsers always send one.
	botNoAgent = "no_agent"
	// botMonitor looks whether a site is up, or how fast it is.
	botMonitor = "monitor"
	// botPreview makes the picture of a link in a message.
	botPreview = "preview"
	// botHeadless is a browser without a screen.
	botHeadless = "headless"
	// botLibrary is an HTTP library or tool, and what calls with one. A merchant's
	// app is among them as long as its agent begins with its library's (okhttp):
	// what tells it from a server is that it names itself.
	botLibrary = "library"
	// botCrawler reads the web.
	botCrawler = "crawler"
	// botPrefetch: a browser fetched the page in case somebody clicks.
	botPrefetch = "prefetch"
)

// Parts of agents in lower case. What ends in a slash is a product, and the
// slash keeps it from being found inside other words.
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
	// libraryParts are of those that call themselves Mozilla.
	libraryParts = []string{"windowspowershell/", "winhttp", "google-apps-script"}
	crawlers     = []string{
		"crawl", "spider", "slurp", "scrapy", "mediapartners-google", "apis-google", "google-inspectiontool", "googleother",
		"google-extended", "google-read-aloud", "googleprober", "googleproducer", "feedfetcher", "feedburner", "feedly", "ia_archiver", "heritrix", "nutch", "chatgpt-user",
		"claude-user", "claude-web", "anthropic-ai", "perplexity-user", "meta-external", "cohere-ai", "censysinspect", "zgrab", "masscan",
		"nuclei", "nikto", "sqlmap", "internetmeasurement", "screaming frog", "sitebulb", "validator",
		// By convention only robots say where to read about them.
		"http://", "https://",
	}
)

// libraries are first words of agents, in lower case.
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

// botReason says why an agent, in lower case, is no person's; empty when it may
// be one. The more telling words come first: many a monitor and preview calls
// itself a bot, too.
func botReason(agent string) string {
	switch {
	case strings.TrimSpace(agent) == "":
		return botNoAgent
	case containsAny(agent, monitors):
		return botMonitor
	// Pages that an app shows have the app's name further behind.
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

// namesBot finds words that end in bot. Cubot makes phones.
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

// firstWord is the name of the first product of an agent.
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
