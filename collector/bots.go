package collector

import "strings"

// Values of the field bot_reason of a click record. The field is empty if the user agent
// does not look like a bot. Clicks of bots are not refused, because some of these clicks
// are wanted: test clients have the agents of HTTP libraries, and so do servers that send
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
	// botLibrary is an HTTP library or tool. Clicks of a merchant's app also have this
	// reason if the app's agent begins with the name of a library (such as okhttp)
	// instead of the name of the app.
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
	// libraryParts are parts of agents that begin with Mozilla but come from libraries.
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

// botReason returns the bot_reason of an agent, or "" if the agent does not look like a
// bot. The agent must be in lower case. botReason checks more specific reasons first,
// because the agents of many monitors and previews also contain "bot".
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

// firstWord returns the first word of an agent, which usually is a product name.
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
