package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/server"
)

// limitText describes the rate limit and the body limit of a route in sentences.
func limitText(r contract.Route, policy server.Policy) string {
	var sentences []string
	if policy.Zone == server.ZoneNone {
		sentences = append(sentences, "There is no rate limit.")
	} else {
		sentences = append(sentences, zoneText(string(policy.Zone)))
	}
	for _, second := range []server.Zone{policy.AccountZone, policy.WorkspaceZone} {
		if second != server.ZoneNone {
			sentences = append(sentences, zoneText(string(second)))
		}
	}
	if r.HasBody {
		sentences = append(sentences, fmt.Sprintf("The body may have up to %d KiB.", contract.BodyLimit(r.FullMethod)>>10))
	}
	return strings.Join(sentences, " ")
}

// limitSubjects says for each zone how its requests are counted.
var limitSubjects = map[string]string{
	"mail_provider": "per client address", "unsubscribe": "per client address",
	"conversions": "per secret key", "auth": "per client address", "general": "per user or key", "tracking": "per public key", "resend": "per account",
	"erasure": "per account", "buyer_erasure": "per workspace", "export": "per account", "landing": "per client address",
}

// zoneText describes the rate limit of a zone. The default is read from the tags of the
// settings.
func zoneText(zone string) string {
	name := contract.CamelCase(zone)
	limits, name := reflect.TypeFor[settings.Limits](), strings.ToUpper(name[:1])+name[1:]
	switch zone {
	case "tracking":
		limits = reflect.TypeFor[settings.Collector]()
	case "landing":
		limits, name = reflect.TypeFor[settings.Landing](), "Limit"
	}
	field, _ := limits.FieldByName(name)
	period := "60 seconds"
	if slices.Contains([]server.Zone{server.ZoneResend, server.ZoneErasure, server.ZoneBuyerErasure, server.ZoneExport}, server.Zone(zone)) {
		period = "an hour"
	}
	return fmt.Sprintf("Rate limit: `%s`, by default %s requests in %s %s.", zone, field.Tag.Get("envDefault"), period, limitSubjects[zone])
}
