package main

import (
	"github.com/tributary-hq/tributary/affiliate"
)

// The route of the collector. It has no proto, so its schemas are written by hand in this
// file. The end-to-end tests compare them with a response.
const (
	clickPath = "/v1/clicks"
	clickTag  = "Tracking"
)

// click describes POST /v1/clicks, which the collector serves and no proto describes.
func (b *builder) click() (object, error) {
	for name, schema := range map[string]object{"ClickRequest": clickRequest(), "Click": clickResponse()} {
		if _, err := b.claim(name, clickPath); err != nil {
			return nil, err
		}
		b.schemas[name] = schema
	}
	sample := b.examples["registerClick"]
	response := func(description string) object {
		return object{{"description", description}, {"headers", ignoredFields}, {"content", withExample(jsonContent("Click"), sample.Response)}}
	}
	body := object{{"schema", reference("ClickRequest")}, {"example", sample.Request}}
	click := append(object{
		{"tags", []string{clickTag}},
		{"summary", title("registerClick")},
		{"description", "Registers a click on a referral link. The collector serves this route. The public key is sent as a bearer token, " +
			"in the header `X-Public-Key`, or as `public_key` in the body. Unknown keys of the body are ignored.\n\n" +
			zoneText("tracking") + " The body may have up to 8 KiB."},
		{"operationId", "registerClick"},
		{"security", []object{{{"publicKey", []string{}}}, {}}},
		{"x-rate-limit-zone", "tracking"},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", body}, {"text/plain", body}}}}},
	}, member{"responses", append(object{
		{"201", response("The click is stored.")},
		{"200", response("The same click was registered before. `deduplicated` is true.")},
	}, b.errorResponses([]affiliate.Reason{
		affiliate.ReasonValidation, affiliate.ReasonInvalidPublicKey, affiliate.ReasonForbidden, affiliate.ReasonHTTPSRequired,
		affiliate.ReasonOriginNotAllowed, affiliate.ReasonNotFound, affiliate.ReasonPayloadTooLarge, affiliate.ReasonUnsupportedMediaType,
		affiliate.ReasonRateLimitExceeded, affiliate.ReasonInternal, affiliate.ReasonServiceUnavailable,
	})...)})
	b.addCommand(&click, "registerClick")
	return click, nil
}

func clickRequest() object {
	return object{
		{"type", "object"},
		{"description", "A click on a referral link."},
		{"required", []string{"referral_code"}},
		{"properties", object{
			{"referral_code", object{
				{"type", "string"},
				{"minLength", 1},
				{"maxLength", 100},
				{"description", "The referral code in the page's URL. Case is ignored."},
			}},
			{"public_key", described(stringType(), "The public key, for senders that cannot set headers.")},
			{"click_id", object{
				{"type", "string"},
				{"format", "uuid"},
				{"description", "A UUIDv7 that the sender proposes as the click id. It is used if its time is within 5 minutes of now; otherwise the collector issues another id."},
			}},
			{"url", described(stringType(), "The landing page. Only its origin and path are stored.")},
			{"referrer", described(stringType(), "The referring page. Only its host is stored.")},
			{"sub_id", described(stringType(), "The partner's own label for the traffic.")},
			{"utm", object{{"type", "object"}, {"nullable", true}, {"properties", object{
				{"source", stringType()},
				{"medium", stringType()},
				{"campaign", stringType()},
				{"term", stringType()},
				{"content", stringType()},
			}}, {"description", "The campaign parameters of the landing page."}}},
			{"consent", object{
				{"type", "string"},
				{"enum", []string{"granted", "denied", "unknown"}},
				{"description", "The visitor's consent. If it is `denied`, no data about the visitor's address is stored."},
			}},
			{"screen", described(stringType(), "The size of the visitor's screen.")},
			{"language", described(stringType(), "The language of the visitor's browser.")},
			{"occurred_at", described(timestampType(), "The time of the click on the visitor's device. It is stored, but the attribution window begins when the collector receives the click.")},
		}},
	}
}

func clickResponse() object {
	nullable := func(schema object) object { return append(schema, member{"nullable", true}) }
	const unresolved = " Null if the collector could not look up the referral code."
	return object{
		{"type", "object"},
		{"description", "A registered click."},
		{"required", []string{
			"click_id", "program_id", "mode", "recorded", "deduplicated", "expires_at", "attribution_window_days", "cookie_max_age", "attribution_model", "discount",
		}},
		{"properties", object{
			{"click_id", object{{"type", "string"}, {"format", "uuid"}, {"description", "The id of the click, to be reported with conversions."}}},
			{"program_id", described(nullable(object{{"type", "string"}, {"format", "uuid"}}), "The programme of the referral code."+unresolved)},
			{"mode", object{{"type", "string"}, {"enum", []string{"test", "live"}}, {"description", "The mode of the public key."}}},
			{"recorded", object{{"type", "boolean"}, {"description", "Always true."}}},
			{"deduplicated", object{{"type", "boolean"}, {"description", "Whether the same click was registered before."}}},
			{"expires_at", described(nullable(timestampType()), "The end of the attribution window."+unresolved)},
			{"attribution_window_days", described(nullable(object{{"type", "integer"}}), "The attribution window in days."+unresolved)},
			{"cookie_max_age", object{{"type", "integer"}, {"description", "The lifetime of the click cookie, in seconds."}}},
			{"attribution_model", described(nullable(stringType()), "Whether a later click replaces the cookie (`last_click`) or not (`first_click`)."+unresolved)},
			{"discount", described(nullable(object{{"type", "object"}, {"properties", object{
				{"promo_code", described(stringType(), "The promo code.")},
				{"type", object{{"type", "string"}, {"enum", []string{"percentage", "fixed"}}}},
				{"value", object{{"type", "number"}, {"description", "Percent, or minor units of `currency`."}}},
				{"currency", described(stringType(), "The ISO 4217 code. Only with `fixed`.")},
			}}}), "A promo code of the partner that the page can offer. Null if there is none.")},
		}},
	}
}

func stringType() object { return object{{"type", "string"}} }

func timestampType() object { return object{{"type", "string"}, {"format", "date-time"}} }
