package clickstream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// durabilityRetry is the pause between two attempts to read the configuration of Redis.
const durabilityRetry = 2 * time.Second

// CheckDurability logs a warning if a server of the click stream does not fsync each
// write before it responds, or if its configuration cannot be read. It waits until Redis
// responds or ctx ends.
func CheckDurability(ctx context.Context, client redis.UniversalClient, log *slog.Logger) {
	for {
		err := eachMaster(ctx, client, func(ctx context.Context, server redis.UniversalClient) error {
			return checkDurability(ctx, server, log)
		})
		var reply redis.Error
		switch {
		case err == nil:
			return
		case errors.As(err, &reply) && !strings.HasPrefix(reply.Error(), "LOADING"):
			log.LogAttrs(ctx, slog.LevelWarn, "cannot check whether the click stream's Redis runs with appendfsync always", slog.Any("error", err))
			return
		}
		timer := time.NewTimer(durabilityRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// eachMaster calls check for each master of a Cluster. If the client is not for a
// Cluster, it calls check once with the client.
func eachMaster(ctx context.Context, client redis.UniversalClient, check func(context.Context, redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return check(ctx, master) })
	}
	return check(ctx, client)
}

func checkDurability(ctx context.Context, server redis.UniversalClient, log *slog.Logger) error {
	config, err := server.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return err
	}
	if config["appendonly"] != "yes" || config["appendfsync"] != "always" {
		log.LogAttrs(ctx, slog.LevelWarn, "the click stream's Redis may lose acknowledged clicks, because it does not run with appendonly yes and appendfsync always",
			slog.String("appendonly", config["appendonly"]), slog.String("appendfsync", config["appendfsync"]))
	}
	return nil
}
