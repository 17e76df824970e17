package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
)

const (
	clicksPath     = "/v1/clicks"
	collectorRound = 2 * time.Second
	// noLimit is more than any run can ask for.
	noLimit = 1_000_000_000

	clickCode = "load"
	clickBody = `{"referral_code":"` + clickCode + `","url":"https://shop.example.com/spring/collection?utm_source=newsletter",` +
		`"referrer":"https://blog.example.org/reviews/42","sub_id":"banner-7",` +
		`"utm":{"source":"newsletter","medium":"email","campaign":"spring"},` +
		`"consent":"granted","screen":"1920x1080","language":"en-GB"}`
)

// hashKey is the base64 of the key that every process shares.
var hashKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))

// connectionCounts are those that the collector's goals name.
var connectionCounts = []int{64, 256}

// measureCollector makes rows C1, C2, C3 and C7.
func measureCollector(ctx context.Context, b *bench) error {
	client, err := b.redisClient(collectorRedis)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	// A rewrite of the log would fall into one round and not into the next.
	if err := client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(); err != nil {
		return err
	}
	keys, err := fillDirectory(ctx, client, connectionCounts[len(connectionCounts)-1])
	if err != nil {
		return err
	}
	edge, err := b.startCollector(ctx)
	if err != nil {
		return err
	}
	defer edge.stop()
	answer, err := oneClick(ctx, edge.address, keys[0])
	if err != nil {
		return edge.fail(err)
	}
	bare, err := b.startBare(ctx, answer)
	if err != nil {
		return err
	}
	defer bare.stop()
	for _, connections := range connectionCounts {
		c := clicks{client: client, keys: keys, connections: connections}
		what := "collector, " + strconv.Itoa(connections) + " connections"
		got, err := b.takeTurns(ctx, what, c.to(bare, ""), c.to(edge, "everysec"), c.to(edge, "always"))
		if err != nil {
			return err
		}
		b.collectorRows(what, connections, got[0], got[1], got[2])
	}
	return nil
}

func (b *bench) collectorRows(what string, connections int, bare, everysec, always []sample) {
	const yardstick, own = "bare net/http", "own everysec"
	id, goal, cpuID, cpuGoal, alwaysGoal := "C1", "≥ 0.75", "C3", "≤ 1.4", "≥ 0.70"
	if connections > connectionCounts[0] {
		id, goal, cpuID, cpuGoal, alwaysGoal = "C2", "≥ 0.90", "", "", "≥ 0.90"
	}
	b.compare(id, what+", everysec", yardstick, goal, everysec, bare, rate, perSecond)
	b.compare(cpuID, "  CPU a click", yardstick, cpuGoal, everysec, bare, cpu, micros)
	b.compare("", what+", always", yardstick, "", always, bare, rate, perSecond)
	b.compare("", "  CPU a click", yardstick, "", always, bare, cpu, micros)
	b.compare("C7", what+", always", own, alwaysGoal, always, everysec, rate, perSecond)
}

// clicks is the load of the collector's rows.
type clicks struct {
	client      redis.UniversalClient
	keys        []string
	connections int
}

// to sends clicks to a server; Redis flushes its log as fsync says, when that
// matters.
func (c clicks) to(p *process, fsync string) side {
	requests := make([][]byte, c.connections)
	for i := range requests {
		requests[i] = appendPost(nil, clicksPath, c.keys[i], clickBody)
	}
	return func(ctx context.Context) (sample, error) {
		if fsync != "" {
			if err := c.client.ConfigSet(ctx, "appendfsync", fsync).Err(); err != nil {
				return sample{}, err
			}
		}
		got, err := traffic{
			address: p.address, pid: p.pid, connections: c.connections, measured: collectorRound, status: http.StatusCreated,
			request: func(dst []byte, connection int) []byte { return append(dst, requests[connection]...) },
		}.run(ctx)
		if err != nil {
			return sample{}, p.fail(err)
		}
		// Nobody consumes the stream.
		return got, c.client.Unlink(ctx, clickstream.Key(0)).Err()
	}
}

// fillDirectory makes a merchant for every connection, as the core would tell
// the edge of them, and returns their public keys.
func fillDirectory(ctx context.Context, client redis.UniversalClient, merchants int) ([]string, error) {
	writer := directory.NewWriter(client)
	rebuild, err := writer.BeginRebuild(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	keys := make([]string, merchants)
	batch := writer.Batch()
	for i := range keys {
		key := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive)
		keys[i] = key.Reveal()
		scope := affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](now), Mode: key.Mode}
		program, participant := affiliate.NewID[affiliate.Program](now), affiliate.NewID[affiliate.Participant](now)
		batch.PutPublicKey(1, key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: scope.Workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE})
		batch.PutReferralCode(1, scope, clickCode, &edgev1.ReferralCodeEntry{
			ProgramId: program.UUID[:], ParticipantId: participant.UUID[:],
			Active: true, AttributionWindowDays: 30, AttributionModel: string(affiliate.LastClick),
		})
	}
	if err := batch.Flush(ctx); err != nil {
		return nil, err
	}
	if complete, err := writer.MarkComplete(ctx, rebuild); err != nil || !complete {
		return nil, errors.Join(err, errors.New("the directory could not be filled"))
	}
	return keys, nil
}

func (b *bench) startCollector(ctx context.Context) (*process, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	private, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	redisURL, err := b.redisURL(collectorRedis)
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, "collector", address, []string{
		"TRIBUTARY_REDIS_URL=" + redisURL,
		"TRIBUTARY_COLLECTOR_LISTEN=" + address,
		"TRIBUTARY_METRICS_LISTEN=" + private,
		"TRIBUTARY_ALLOW_HTTP=true",
		"TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_LIMIT_TRACKING=" + strconv.Itoa(noLimit),
	}, b.file("collector"))
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, "/v1/health/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// oneClick registers a click and returns the answer.
func oneClick(ctx context.Context, address, key string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+clicksPath, bytes.NewReader([]byte(clickBody)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("a click is answered %d: %s", answer.StatusCode, text)
	}
	return string(text), err
}
