package main

import (
	"github.com/tributary-hq/tributary/affiliate"
)

// The route of the collector. It has no proto, so its shapes are written here. The
// end-to-end tests compare them with a response.
const (
	clickPath = "/v1/clicks"
	clickTag  = "Tracking"
)

// click describes POST /v1/clicks (DECISIONS.md section 4).
func (b *builder) click() (object, error) {
	for name, schema := range map[string]object{"ClickRequest": clickRequest(), "Click": clickResponse()} {
		if _, err := b.claim(name, clickPath); err != nil {
			return nil, err
		}
		b.schemas[name] = schema
	}
	response := func(description string) object {
		return object{{"description", description}, {"headers", ignoredFields}, {"content", jsonContent("Click")}}
	}
	body := object{{"schema", reference("ClickRequest")}}
	return append(object{
		{"tags", []string{clickTag}},
		{"summary", "Registers a click."},
		{"description", "The collector serves this route. The public key is a bearer token, the header X-Public-Key, or public_key in the body. " +
			"Unknown keys of the body are ignored."},
		{"operationId", "registerClick"},
		{"security", []object{{{"publicKey", []string{}}}, {}}},
		{"x-rate-limit-zone", "tracking"},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", body}, {"text/plain", body}}}}},
	}, member{"responses", append(object{
		{"201", response("The click is durable.")},
		{"200", response("The same click was registered before; deduplicated is true.")},
	}, b.refusals([]affiliate.Reason{
		affiliate.ReasonValidation, affiliate.ReasonInvalidPublicKey, affiliate.ReasonForbidden, affiliate.ReasonHTTPSRequired,
		affiliate.ReasonOriginNotAllowed, affiliate.ReasonNotFound, affiliate.ReasonPayloadTooLarge, affiliate.ReasonUnsupportedMediaType,
		affiliate.ReasonRateLimitExceeded, affiliate.ReasonInternal, affiliate.ReasonServiceUnavailable,
	})...)}), nil
}

func clickRequest() object {
	text := func(description string) object { return object{{"type", "string"}, {"description", description}} }
	utm := object{{"type", "object"}, {"nullable", true}, {"properties", object{
		{"source", object{{"type", "string"}}},
		{"medium", object{{"type", "string"}}},
		{"campaign", object{{"type", "string"}}},
		{"term", object{{"type", "string"}}},
		{"content", object{{"type", "string"}}},
	}}}
	return object{
		{"type", "object"},
		{"required", []string{"referral_code"}},
		{"properties", object{
			{"referral_code", object{{"type", "string"}, {"minLength", 1}, {"maxLength", 100}}},
			{"public_key", text("For senders that cannot set headers.")},
			{"click_id", object{{"type", "string"}, {"format", "uuid"}, {"description", "A UUIDv7 of the sender. It is used if its time is within 5 minutes."}}},
			{"url", text("The page; only origin and path are kept.")},
			{"referrer", text("Only its host is kept.")},
			{"sub_id", object{{"type", "string"}}},
			{"utm", utm},
			{"consent", object{{"type", "string"}, {"enum", []string{"granted", "denied", "unknown"}}}},
			{"screen", object{{"type", "string"}}},
			{"language", object{{"type", "string"}}},
			{"occurred_at", object{{"type", "string"}, {"format", "date-time"}}},
		}},
	}
}

func clickResponse() object {
	nullable := func(schema object) object { return append(schema, member{"nullable", true}) }
	return object{
		{"type", "object"},
		{"required", []string{
			"click_id", "program_id", "mode", "recorded", "deduplicated", "expires_at", "attribution_window_days", "cookie_max_age", "attribution_model", "discount",
		}},
		{"properties", object{
			{"click_id", object{{"type", "string"}, {"format", "uuid"}}},
			{"program_id", nullable(object{{"type", "string"}, {"format", "uuid"}})},
			{"mode", object{{"type", "string"}, {"enum", []string{"test", "live"}}}},
			{"recorded", object{{"type", "boolean"}}},
			{"deduplicated", object{{"type", "boolean"}}},
			{"expires_at", nullable(object{{"type", "string"}, {"format", "date-time"}})},
			{"attribution_window_days", nullable(object{{"type", "integer"}})},
			{"cookie_max_age", object{{"type", "integer"}, {"description", "Seconds."}}},
			{"attribution_model", nullable(object{{"type", "string"}})},
			{"discount", nullable(object{{"type", "object"}, {"properties", object{
				{"promo_code", object{{"type", "string"}}},
				{"type", object{{"type", "string"}, {"enum", []string{"percentage", "fixed"}}}},
				{"value", object{{"type", "number"}, {"description", "Percent, or minor units of currency."}}},
				{"currency", object{{"type", "string"}, {"description", "With fixed only."}}},
			}}})},
		}},
	}
}
