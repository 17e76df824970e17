package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

func (r Registration) faults() []error {
	var faults []error
	switch r.MerchantRegistration {
	case account.OpenRegistration, account.InviteRegistration, account.ClosedRegistration:
	default:
		faults = append(faults, errors.New("TRIBUTARY_REGISTRATION_MERCHANT: must be open, invite or closed"))
	}
	switch r.PartnerRegistration {
	case account.OpenRegistration, account.InviteRegistration:
	default:
		faults = append(faults, errors.New("TRIBUTARY_REGISTRATION_PARTNER: must be open or invite"))
	}
	return faults
}

func (r *Redis) faults() []error {
	var faults []error
	if r.StreamShards < 1 || r.StreamShards > clickstream.MaxShards {
		faults = append(faults, fmt.Errorf("TRIBUTARY_STREAM_SHARDS: must be between 1 and %d", clickstream.MaxShards))
	}
	if r.LimitTimeout < minLimitTimeout || r.LimitTimeout > maxLimitTimeout {
		faults = append(faults, fmt.Errorf("TRIBUTARY_LIMIT_TIMEOUT: must be between %s and %s", minLimitTimeout, maxLimitTimeout))
	}
	faults = append(faults, checkEndpoint("TRIBUTARY_REDIS_URL", r.URL, "TRIBUTARY_CLICK_STREAM_REDIS", r.StreamRedis)...)
	return append(faults, checkEndpoint("TRIBUTARY_CACHE_REDIS_URL", r.CacheURL, "TRIBUTARY_CACHE_REDIS", r.CacheRedis)...)
}

// checkEndpoint returns an error if the kind of a Redis is invalid, or if its URL is not
// valid for the kind.
func checkEndpoint(urlName, url, kindName string, kind clickstream.Kind) []error {
	switch kind {
	case clickstream.Single, clickstream.Sentinel, clickstream.Cluster:
	default:
		return []error{fmt.Errorf("%s: must be single, sentinel or cluster", kindName)}
	}
	if url == "" {
		return nil
	}
	if err := (clickstream.Endpoint{URL: url, Kind: kind}).Check(); err != nil {
		return []error{fmt.Errorf("%s with %s=%s: %w", urlName, kindName, kind, err)}
	}
	return nil
}

// maxShutdownDelay is the maximum of ShutdownDelay. The whole shutdown of a collector
// takes at most 20 s, so the other steps of the shutdown have at least 10 s.
const maxShutdownDelay = 10 * time.Second

func (h HTTP) faults() []error {
	var faults []error
	if (h.TLSCert == "") != (h.TLSKey == "") {
		faults = append(faults, errors.New("TRIBUTARY_TLS_CERT and TRIBUTARY_TLS_KEY must be set together"))
	}
	if h.ShutdownDelay < 0 || h.ShutdownDelay > maxShutdownDelay {
		faults = append(faults, fmt.Errorf("TRIBUTARY_SHUTDOWN_DELAY: must be between 0s and %s", maxShutdownDelay))
	}
	return faults
}

func checkPositive[N int | int64](name string, n N) []error {
	if n < 1 {
		return []error{fmt.Errorf("%s: must be at least 1", name)}
	}
	return nil
}

func (c *Core) check() []error {
	faults := append(c.Redis.faults(), c.HTTP.faults()...)
	faults = append(faults, c.Regions.faults(c.URL, c.CacheURL)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_CONVERSIONS", c.Conversions)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_AUTH", c.Auth)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_RESEND", c.Resend)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_ERASURE", c.Erasure)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_BUYER_ERASURE", c.BuyerErasure)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_EXPORT", c.Export)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_INVITE_ADDRESS", c.InviteAddress)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_INVITES", c.Invites)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_GENERAL", c.General)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_MAIL_PROVIDER", c.Limits.MailProvider)...)
	faults = append(faults, checkPositive("TRIBUTARY_LIMIT_UNSUBSCRIBE", c.Unsubscribe)...)
	faults = append(faults, c.Mail.check()...)
	faults = append(faults, c.Registration.faults()...)
	faults = append(faults, c.Traces.faults()...)
	if _, ok := affiliate.ParseWebURL(c.LinkURL); c.LinkURL != "" && (!ok || strings.Count(c.LinkURL, "/") != 2) {
		faults = append(faults, errors.New("TRIBUTARY_LINK_URL: must be a scheme and a host, for example https://go.example.com"))
	}
	if (c.GRPCTLSCert == "") != (c.GRPCTLSKey == "") {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CERT and TRIBUTARY_GRPC_TLS_KEY must be set together"))
	}
	if c.GRPCTLSCA != "" && c.GRPCTLSCert == "" {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CA requires TRIBUTARY_GRPC_TLS_CERT"))
	}
	return faults
}

func (g *Gateway) check() []error {
	faults := append(g.HTTP.faults(), g.Traces.faults()...)
	if (g.ClientCert == "") != (g.ClientKey == "") {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CERT and TRIBUTARY_GRPC_TLS_KEY must be set together"))
	}
	return faults
}

func (c *Collector) check() []error {
	faults := append(c.Redis.faults(), c.HTTP.faults()...)
	faults = append(faults, c.Traces.faults()...)
	if c.Visitor < 0 {
		faults = append(faults, errors.New("TRIBUTARY_LIMIT_TRACKING_ADDRESS: must be at least 0"))
	}
	return append(faults, checkPositive("TRIBUTARY_LIMIT_TRACKING", c.Tracking)...)
}
