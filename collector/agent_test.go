package collector

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	windows   = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
	macintosh = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
	android   = "Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) "
	pixelWV   = "Mozilla/5.0 (Linux; Android 13; Pixel 7 Build/TQ3A.230805.001; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/121.0.6167.178 Mobile Safari/537.36"
	iphone    = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_3_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
	ipad      = "Mozilla/5.0 (iPad; CPU OS 17_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
)

// The agents come from real browsers. An empty device or os means that the collector does
// not recognise the device or the system.
func TestAgent_DeviceBrowserAndSystem(t *testing.T) {
	type agentCase struct{ name, agent, device, browser, os string }
	for group, agents := range map[string][]agentCase{
		"desktop": {
			{"Chrome", windows + "Chrome/121.0.0.0 Safari/537.36", "desktop", "Chrome", "Windows"},
			{"Chrome on a Chromebook", "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.0.0 Safari/537.36", "desktop", "Chrome", "ChromeOS"},
			{"Chrome on Linux", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "desktop", "Chrome", "Linux"},
			{"Edge", windows + "Chrome/121.0.0.0 Safari/537.36 Edg/121.0.2277.112", "desktop", "Edge", "Windows"},
			{"Edge before Chromium", windows + "Chrome/70.0.3538.102 Safari/537.36 Edge/18.19042", "desktop", "Edge", "Windows"},
			{"Opera", windows + "Chrome/120.0.0.0 Safari/537.36 OPR/106.0.0.0", "desktop", "Opera", "Windows"},
			{"Vivaldi", windows + "Chrome/120.0.0.0 Safari/537.36 Vivaldi/6.5.3206.53", "desktop", "Vivaldi", "Windows"},
			{"Yandex", windows + "Chrome/120.0.0.0 YaBrowser/24.1.0.0 Safari/537.36", "desktop", "Yandex Browser", "Windows"},
			{"Firefox", "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:122.0) Gecko/20100101 Firefox/122.0", "desktop", "Firefox", "Windows"},
			{"Firefox on Ubuntu", "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:122.0) Gecko/20100101 Firefox/122.0", "desktop", "Firefox", "Linux"},
			{"Safari", macintosh + "Version/17.3.1 Safari/605.1.15", "desktop", "Safari", "macOS"},
			{"Internet Explorer", "Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2; Trident/6.0)", "desktop", "Internet Explorer", "Windows"},
			{"Slack's own window", macintosh + "Slack_SSB/4.36.134 Chrome/120.0.0.0 Electron/28.1.0 Safari/537.36", "desktop", "other", "macOS"},
			{"an unknown browser of Chrome's family", windows + "Chrome/120.0.0.0 Safari/537.36 Made-Up/1.0", "desktop", "other", "Windows"},
		},
		"mobile": {
			{"Chrome", "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.0.0 Mobile Safari/537.36", "mobile", "Chrome", "Android"},
			{"Chrome on iOS", iphone + "CriOS/121.0.6167.171 Mobile/15E148 Safari/604.1", "mobile", "Chrome", "iOS"},
			{"Safari", iphone + "Version/17.3.1 Mobile/15E148 Safari/604.1", "mobile", "Safari", "iOS"},
			{"Samsung Internet", "Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Mobile Safari/537.36", "mobile", "Samsung Internet", "Android"},
			{"Firefox", "Mozilla/5.0 (Android 14; Mobile; rv:122.0) Gecko/122.0 Firefox/122.0", "mobile", "Firefox", "Android"},
			{"Firefox on iOS", iphone + "FxiOS/122.1 Mobile/15E148 Safari/605.1.15", "mobile", "Firefox", "iOS"},
			{"Firefox Focus", android + "Version/4.0 Focus/8.0.15 Chrome/93.0.4577.82 Mobile Safari/537.36", "mobile", "Firefox", "Android"},
			{"Firefox Focus on iOS", iphone + "FxiOS/7.0.4 Mobile/16B91 Safari/605.1.15", "mobile", "Firefox", "iOS"},
			{"Edge", android + "Chrome/121.0.0.0 Mobile Safari/537.36 EdgA/121.0.2277.105", "mobile", "Edge", "Android"},
			{"Edge on iOS", iphone + "Version/17.0 EdgiOS/121.0.2277.107 Mobile/15E148 Safari/605.1.15", "mobile", "Edge", "iOS"},
			{"Opera", android + "Chrome/119.0.0.0 Mobile Safari/537.36 OPR/79.0.0.0", "mobile", "Opera", "Android"},
			{"Opera Mini", "Opera/9.80 (Android; Opera Mini/7.5.33361/191.308; U; en) Presto/2.8.119 Version/11.10", "mobile", "Opera Mini", "Android"},
			{"DuckDuckGo", android + "Version/4.0 Chrome/121.0.0.0 Mobile DuckDuckGo/5 Safari/537.36", "mobile", "DuckDuckGo", "Android"},
			{"DuckDuckGo on iOS", iphone + "Version/17.3 Mobile/15E148 DuckDuckGo/7 Safari/605.1.15", "mobile", "DuckDuckGo", "iOS"},
			{"Huawei", "Mozilla/5.0 (Linux; Android 10; ELE-L29; HMSCore 6.13.0.302) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99.0.4844.88 HuaweiBrowser/14.0.2.310 Mobile Safari/537.36", "mobile", "Huawei Browser", "Android"},
			{"Mi", "Mozilla/5.0 (Linux; U; Android 12; en-us; M2101K6G Build/SKQ1.210908.001) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.127 Mobile Safari/537.36 XiaoMi/MiuiBrowser/13.30.0-gn", "mobile", "Miui Browser", "Android"},
			{"a phone of Cubot", "Mozilla/5.0 (Linux; Android 11; CUBOT NOTE 20) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.0.0 Mobile Safari/537.36", "mobile", "Chrome", "Android"},
			{"Windows Phone", "Mozilla/5.0 (compatible; MSIE 9.0; Windows Phone OS 7.5; Trident/5.0; IEMobile/9.0; NOKIA; Lumia 710)", "mobile", "Internet Explorer", "Windows Phone"},
		},
		"tablet": {
			{"iPad that asks for mobile pages", ipad + "Version/17.3 Mobile/15E148 Safari/604.1", "tablet", "Safari", "iOS"},
			{"Chrome on an iPad that asks for desktop pages", macintosh + "CriOS/121.0.6167.171 Version/13.0.3 Safari/605.1.15", "tablet", "Chrome", "iOS"},
			{"Firefox on an iPad that asks for desktop pages", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:122.0) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/122.1 Safari/605.1.15", "tablet", "Firefox", "iOS"},
			{"Galaxy Tab", "Mozilla/5.0 (Linux; Android 13; SM-X900) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.0.0 Safari/537.36", "tablet", "Chrome", "Android"},
			{"Firefox", "Mozilla/5.0 (Android 13; Tablet; rv:109.0) Gecko/118.0 Firefox/118.0", "tablet", "Firefox", "Android"},
			{"Kindle Fire", "Mozilla/5.0 (Linux; Android 9; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/120.4.1 like Chrome/120.0.6099.230 Safari/537.36", "tablet", "Silk", "Android"},
		},
		"in apps": {
			{"Instagram on iOS", iphone + "Mobile/15E148 Instagram 319.0.2.29.97 (iPhone15,2; iOS 17_3_1; en_US; en; scale=3.00; 1179x2556; 570817241)", "mobile", "Instagram", "iOS"},
			{"Instagram on Android", pixelWV + " Instagram 318.0.0.30.110 Android (33/13; 420dpi; 1080x2219; Google/google; Pixel 7; panther; panther; en_US; 568642046)", "mobile", "Instagram", "Android"},
			{"Facebook on iOS", iphone + "Mobile/21D61 [FBAN/FBIOS;FBAV/450.0.0.38.108;FBBV/564431005;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;FBSV/17.3.1;FBSS/3;FBID/phone;FBLC/en_US;FBOP/5]", "mobile", "Facebook", "iOS"},
			{"Facebook on Android", pixelWV + " [FB_IAB/FB4A;FBAV/450.0.0.44.109;]", "mobile", "Facebook", "Android"},
			{"Messenger", iphone + "Mobile/21D61 [FBAN/MessengerForiOS;FBAV/446.0.0.27.106;FBBV/563151217;FBDV/iPhone12,1;FBMD/iPhone;FBSN/iOS;FBSV/17.3;FBSS/2;FBCR/;FBID/phone;FBLC/de_DE;FBOP/0]", "mobile", "Facebook", "iOS"},
			{"TikTok", iphone + "Mobile/15E148 musical_ly_33.0.0 JsSdk/2.0 NetType/WIFI Channel/App Store ByteLocale/en Region/US RevealType/Dialog isDarkMode/0 WKWebView/1 BytedanceWebview/d8a21c6", "mobile", "TikTok", "iOS"},
			{"WeChat", "Mozilla/5.0 (Linux; Android 13; M2012K11AC Build/TKQ1.220829.002; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/116.0.0.0 Mobile Safari/537.36 XWEB/1160065 MMWEBSDK/20231202 MMWEBID/7308 MicroMessenger/8.0.47.2560(0x28002F30) WeChat/arm64 Weixin NetType/WIFI Language/zh_CN ABI/arm64", "mobile", "WeChat", "Android"},
			{"Line", iphone + "Mobile/15E148 Safari Line/14.1.0", "mobile", "Line", "iOS"},
			{"Snapchat", iphone + "Mobile/21D61 Snapchat/12.73.0.38 (like Safari/8617.2.4.10.8, panda)", "mobile", "Snapchat", "iOS"},
			{"Pinterest", iphone + "Mobile/15E148 [Pinterest/iOS]", "mobile", "Pinterest", "iOS"},
			{"LinkedIn", iphone + "Mobile/15E148 [LinkedInApp]/9.29.8183", "mobile", "LinkedIn", "iOS"},
			{"X", iphone + "Mobile/15E148 Twitter for iPhone/10.28", "mobile", "X", "iOS"},
			{"KakaoTalk", pixelWV + ";KAKAOTALK 2410540", "mobile", "KakaoTalk", "Android"},
			{"Telegram", pixelWV + " Telegram-Android/10.8.1 (Google Pixel 7; Android 13; SDK 33; HIGH)", "mobile", "Telegram", "Android"},
			{"Google", iphone + "GSA/303.0.603601555 Mobile/15E148 Safari/604.1", "mobile", "Google App", "iOS"},
			{"an unknown app on Android", pixelWV, "mobile", "Android WebView", "Android"},
			{"an unknown app on iOS", iphone + "Mobile/15E148", "mobile", "other", "iOS"},
			{"an app that sends its own name", "MyShop/3.2 (Android 13; Pixel 7) okhttp/4.12.0", "mobile", "other", "Android"},
			{"an app that uses the HTTP library of Android", "Dalvik/2.1.0 (Linux; U; Android 13; SM-S911B Build/TP1A.220624.014)", "mobile", "other", "Android"},
			{"an app that uses the HTTP library of Apple", "MyShop/512 CFNetwork/1492.0.1 Darwin/23.3.0", "", "other", ""},
		},
		"televisions and consoles": {
			{"Samsung", "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) 76.0.3809.146/6.0 TV Safari/537.36", "", "other", "other"},
			{"LG", "Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.79 Safari/537.36 WebAppManager", "", "Chrome", "other"},
			{"Fire TV", "Mozilla/5.0 (Linux; Android 9; AFTKA Build/PS7633.3445N; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/108.0.5359.220 Mobile Safari/537.36", "", "Android WebView", "Android"},
			{"PlayStation", "Mozilla/5.0 (PlayStation; PlayStation 5/7.61) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.0 Safari/605.1.15", "", "Safari", ""},
			{"Xbox", "Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.4430.85 Safari/537.36 Edge/44.18363.8131", "", "Edge", "Windows"},
		},
	} {
		for _, w := range agents {
			t.Run(group+"/"+w.name, func(t *testing.T) {
				got := classify(w.agent)
				if got.device != w.device || got.browser != w.browser || got.os != w.os {
					t.Errorf("classify(%q):\ndevice %q, browser %q, system %q; want %q, %q, %q", w.agent, got.device, got.browser, got.os, w.device, w.browser, w.os)
				}
				if got.bot != "" {
					t.Errorf("classify(%q): bot reason %q, want none", w.agent, got.bot)
				}
			})
		}
	}
}

func TestAgent_BotReason(t *testing.T) {
	const crawler = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; "
	for reason, agents := range map[string][]string{
		botNoAgent: {"", " ", "\t"},
		botLibrary: {
			"curl/8.5.0", "Wget/1.21.4", "python-requests/2.31.0", "Python-urllib/3.11", "python-httpx/0.26.0", "Python/3.11 aiohttp/3.9.3",
			"Go-http-client/1.1", "Go-http-client/2.0", "go-resty/2.11.0 (https://github.com/go-resty/resty)", "Java/17.0.10", "Java-http-client/21",
			"Apache-HttpClient/4.5.14 (Java/17.0.9)", "Jakarta Commons-HttpClient/3.1", "okhttp/4.12.0", "axios/1.6.7", "node", "undici",
			"node-fetch/1.0 (+https://github.com/bitinn/node-fetch)", "got (https://github.com/sindresorhus/got)", "libwww-perl/6.72", "lwp-request/6.72 libwww-perl/6.72",
			"GuzzleHttp/7", "PHP/8.2.15", "Symfony HttpClient/Curl", "PostmanRuntime/7.36.3", "insomnia/8.6.1", "HTTPie/3.2.2", "Ruby",
			"Faraday v2.9.0", "http.rb/5.2.0", "Dart/3.3 (dart:io)", "reqwest/0.11.24", "RestSharp/110.2.0.0", "k6/0.49.0 (https://k6.io/)", "WordPress/6.4.3; https://shop.example",
			"Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.22621.2506", "Mozilla/4.0 (compatible; Win32; WinHttp.WinHttpRequest.5)",
		},
		botPreview: {
			"WhatsApp/2.24.3.78 A", "WhatsApp/2", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", "Slackbot 1.0 (+https://api.slack.com/robots)",
			"TelegramBot (like TwitterBot)", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "Twitterbot/1.0",
			"LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)", "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
			"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
			"Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com", "Pinterest/0.2 (+https://www.pinterest.com/bot.html)",
			"Mozilla/5.0 (compatible; Pinterestbot/1.0; +https://www.pinterest.com/bot.html)", "Mastodon/4.2.5 (http.rb/5.1.1; +https://mastodon.social/)",
			"Snap URL Preview Service; bot; snapchat; https://developers.snap.com/robots", "Bluesky Cardyb/1.1; +mailto:support@bsky.app",
		},
		botCrawler: {
			"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "AdsBot-Google (+http://www.google.com/adsbot.html)", "Mediapartners-Google",
			"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.6167.139 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			crawler + "bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36", "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
			macintosh + "Version/17.4 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)", "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
			"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
			crawler + "GPTBot/1.0; +https://openai.com/gptbot)", crawler + "ClaudeBot/1.0; +claudebot@anthropic.com)", crawler + "ChatGPT-User/1.0; +https://openai.com/bot",
			"CCBot/2.0 (https://commoncrawl.org/faq/)", "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "Scrapy/2.11.0 (+https://scrapy.org)",
			"Mozilla/5.0 (compatible; Bytespider; spider-feedback@bytedance.com) AppleWebKit/537.36 (KHTML, like Gecko)", "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
			"Mozilla/5.0 zgrab/0.x", "shop checker; see https://example.com/about",
		},
		botHeadless: {
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/121.0.6167.85 Safari/537.36",
			"Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
			"Mozilla/5.0 (linux) AppleWebKit/537.36 (KHTML, like Gecko) jsdom/24.0.0",
		},
		botMonitor: {
			"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", "Uptime-Kuma/1.23.11",
			"ELB-HealthChecker/2.0", "GoogleHC/1.0", "kube-probe/1.29", "check_http/v2.3.3 (monitoring-plugins 2.3.3)", "Blackbox Exporter/0.24.0",
			"Amazon-Route53-Health-Check-Service (ref 9b2a; report http://amzn.to/1vsZADi)",
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/121.0.0.0 Safari/537.36 DatadogSynthetics",
			"Mozilla/5.0 (Linux; Android 11; moto g power (2022)) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse",
		},
	} {
		for _, text := range agents {
			t.Run(reason+"/"+text, func(t *testing.T) {
				if got := classify(text).bot; got != reason {
					t.Errorf("bot reason %q, want %q", got, reason)
				}
			})
		}
	}
}

// Safari on an iPad sends the agent of a Mac. The collector recognises the iPad by the
// size of its screen.
func TestDeviceAndSystem_RecognisesIPadByScreen(t *testing.T) {
	safari := classify(macintosh + "Version/17.3.1 Safari/605.1.15")
	chrome := classify(macintosh + "Chrome/121.0.0.0 Safari/537.36")
	for _, c := range []struct {
		agent      *agent
		screen     string
		device, os string
	}{
		{safari, "820x1180", "tablet", "iOS"},
		{safari, "1032x1376", "tablet", "iOS"},
		{safari, "", "desktop", "macOS"},
		{safari, "1440x900", "desktop", "macOS"},
		{safari, "1080x1920", "desktop", "macOS"}, // a monitor in portrait
		{safari, "1024x1024", "desktop", "macOS"},
		{safari, "820x", "desktop", "macOS"},
		{safari, "x1180", "desktop", "macOS"},
		{safari, "-820x1180", "desktop", "macOS"},
		{safari, "820x1180x2", "desktop", "macOS"},
		{chrome, "820x1180", "desktop", "macOS"},
		{classify("curl/8.5.0"), "820x1180", "", ""},
	} {
		if device, os := c.agent.deviceAndSystem(c.screen); device != c.device || os != c.os {
			t.Errorf("agent %q with the screen %q: device %q and system %q, want %q and %q", c.agent.text, c.screen, device, os, c.device, c.os)
		}
	}
}

func TestAgentCache_IsBounded(t *testing.T) {
	cache := newAgentCache()
	first := cache.parse("first")
	if cache.parse("first") != first {
		t.Error("the same agent was parsed twice")
	}
	long := strings.Repeat("a", maxAgent)
	if cache.parse(long+"b") != cache.parse(long+"c") || cache.parse(long).text != long {
		t.Error("bytes after maxAgent were not ignored")
	}
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for i := range maxCachedAgents {
				cache.parse(fmt.Sprint("invented agent ", n, i))
				if got := cache.parse(windows + "Chrome/121.0.0.0 Safari/537.36"); got.device != deviceDesktop {
					t.Errorf("an agent of Chrome: device %q, want %q", got.device, deviceDesktop)
				}
			}
		})
	}
	group.Wait()
	if n := cache.parsed.Len(); n != maxCachedAgents {
		t.Errorf("%d agents are cached, want %d", n, maxCachedAgents)
	}
}

func TestAgentHash_ChangesEveryMonth(t *testing.T) {
	h := &hasher{key: []byte("deployment")}
	a := classify("agent")
	march, april := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	for range 2 {
		for _, at := range []time.Time{march, march, april} {
			if got, want := a.hash(h.forMonth(at)), h.forMonth(at).sum("ua", []byte("agent")); got != want {
				t.Errorf("hash on %s: %x, want %x", at, got, want)
			}
		}
	}
}

// The parts of any parsed agent are values from fixed lists.
func FuzzAgent(f *testing.F) {
	for _, text := range []string{"", "curl", pixelWV, iphone + "Mobile/15E148 [FBAN/FBIOS]", "Mozilla/5.0 (Linux; Android 13; Tablet", "((((/;;[[]:http://", "Android;en-us", "\xff\x00/ "} {
		f.Add(text)
	}
	allowed := map[string]bool{"": true, otherName: true, deviceDesktop: true, deviceMobile: true, deviceTablet: true, "Android WebView": true}
	for _, reason := range []string{botNoAgent, botMonitor, botPreview, botHeadless, botLibrary, botCrawler} {
		allowed[reason] = true
	}
	for _, name := range browsers {
		allowed[name] = true
	}
	for _, name := range systems {
		allowed[name] = true
	}
	for _, token := range browserTokens {
		allowed[token.browser] = true
	}
	cache := newAgentCache()
	f.Fuzz(func(t *testing.T, text string) {
		a := cache.parse(text)
		device, os := a.deviceAndSystem(text)
		for _, value := range []string{a.device, a.browser, a.os, a.bot, device, os} {
			if !allowed[value] {
				t.Errorf("the agent %q has the value %q, which is in no list", text, value)
			}
		}
		if len(a.text) > maxAgent {
			t.Errorf("%d bytes of the agent are cached, want at most %d", len(a.text), maxAgent)
		}
	})
}
