package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"strconv"

	"github.com/tributary-hq/tributary/tools/servers"
)

// startCore starts a core with the gateway in the same process. extra contains additional
// settings.
func (b *bench) startCore(ctx context.Context, db *database, extra ...string) (*process, error) {
	addresses, err := servers.FreeAddresses(3)
	if err != nil {
		return nil, err
	}
	redisURL, err := b.redisURL(coreRedis)
	if err != nil {
		return nil, err
	}
	limit := strconv.Itoa(noLimit)
	p, err := b.start(ctx, "core", addresses[0], append([]string{
		"TRIBUTARY_DATABASE_URL=" + db.url,
		"TRIBUTARY_REDIS_URL=" + redisURL,
		"TRIBUTARY_API_LISTEN=" + addresses[0],
		"TRIBUTARY_GRPC_LISTEN=" + addresses[1],
		"TRIBUTARY_METRICS_LISTEN=" + addresses[2],
		"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_SHUTDOWN_DELAY=0s", "TRIBUTARY_REGISTRATION_MERCHANT=open",
		"TRIBUTARY_JWT_KEYS=load:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"TRIBUTARY_ENCRYPTION_KEYS=load:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32)),
		"TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_LIMIT_CONVERSIONS=" + limit,
		"TRIBUTARY_LIMIT_AUTH=" + limit,
		"TRIBUTARY_LIMIT_GENERAL=" + limit,
		"TRIBUTARY_LIMIT_INVITES=" + limit,
	}, extra...), b.file("core"), "serve", "--gateway")
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, "/api/v1/health/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
