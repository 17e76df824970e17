package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/program"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
)

const (
	clicksPath     = "/v1/clicks"
	collectorRound = 1500 * time.Millisecond
	// noLimit is a rate limit that no run can reach.
	noLimit = 1_000_000_000

	clickCode = "load"
	clickBody = `{"referral_code":"` + clickCode + `","url":"https://shop.example.com/spring/collection?utm_source=newsletter",` +
		`"referrer":"https://blog.example.org/reviews/42","sub_id":"banner-7",` +
		`"utm":{"source":"newsletter","medium":"email","campaign":"spring"},` +
		`"consent":"granted","screen":"1920x1080","language":"en-GB"}`
)

// hashKey is the hash key of all processes, in base64.
var hashKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))

// connectionCounts contains the numbers of connections for which the collector has
// performance goals.
var connectionCounts = []int{64, 256}

// measureCollector measures the rows C1 to C7 of the table, and the rows of a collector
// without load.
func measureCollector(ctx context.Context, b *bench) error {
	client, err := b.redisClient(collectorRedis)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	keys, err := fillDirectory(ctx, client, connectionCounts[len(connectionCounts)-1])
	if err != nil {
		return err
	}
	edge, err := b.startCollector(ctx, collectorRedis)
	if err != nil {
		return err
	}
	defer edge.stop()
	response, err := sendClick(ctx, edge.address, keys[0])
	if err != nil {
		return edge.fail(err)
	}
	bare, err := b.startBare(ctx, response)
	if err != nil {
		return err
	}
	defer bare.stop()
	naive, err := b.startNaive(ctx, "naive", "")
	if err != nil {
		return err
	}
	defer naive.stop()
	wide, err := b.startNaive(ctx, "naive-wide", "?pool_size="+strconv.Itoa(len(keys)))
	if err != nil {
		return err
	}
	defer wide.stop()
	for _, connections := range connectionCounts {
		c := clickLoad{client: client, keys: keys, connections: connections}
		what := "collector, " + strconv.Itoa(connections) + " connections"
		got, err := b.takeTurns(ctx, what, b.yardstick(c.sendTo(bare, "")), c.sendTo(edge, everySecond), c.sendTo(edge, always),
			b.yardstick(c.sendTo(naive, everySecond)), b.yardstick(c.sendTo(wide, everySecond)))
		if err != nil {
			return err
		}
		b.collectorRows(what, connections, got[0], got[1], got[2])
		b.groupRows(connections, got[1], got[3], got[4])
	}
	if err := b.measureSteady(ctx, client, keys, bare, edge); err != nil {
		return err
	}
	// The remaining rows start their own processes.
	edge.stop()
	naive.stop()
	wide.stop()
	bare.stop()
	return b.measureFootprint(ctx, keys, response)
}

func (b *bench) collectorRows(what string, connections int, bare, everysec, durable []sample) {
	const yardstickName, own = "bare net/http", "own everysec"
	id, goal, cpuID, cpuGoal, alwaysGoal := "C1", "≥ 0.75", "C3", "≤ 1.4", "≥ 0.70"
	if connections > connectionCounts[0] {
		id, goal, cpuID, cpuGoal, alwaysGoal = "C2", "≥ 0.90", "", "", "≥ 0.90"
	}
	b.compare(id, what+", everysec", yardstickName, goal, everysec, bare, rate, perSecond)
	b.compare(cpuID, "  CPU a click", yardstickName, cpuGoal, everysec, bare, cpu, micros)
	b.compare("", "  p50", yardstickName, "", everysec, bare, p50, millis)
	b.compare("", "  p99", yardstickName, "", everysec, bare, p99, millis)
	b.compare("", what+", always", yardstickName, "", durable, bare, rate, perSecond)
	b.compare("", "  CPU a click", yardstickName, "", durable, bare, cpu, micros)
	b.compare("", "  p50", yardstickName, "", durable, bare, p50, millis)
	b.compare("", "  p99", yardstickName, "", durable, bare, p99, millis)
	b.compare("C7", what+", always", own, alwaysGoal, durable, everysec, rate, perSecond)
}

// groupRows adds the rows that compare the collector, which writes clicks in groups, with
// two collectors that send one XADD for each click: naive, and wide, which has a Redis
// connection for each client connection.
func (b *bench) groupRows(connections int, grouped, naive, wide []sample) {
	const yardstickName = "naive"
	what := "group commit, " + strconv.Itoa(connections) + " connections, everysec"
	b.compare("C4", what, yardstickName, "≥ 2", grouped, naive, rate, perSecond)
	b.compare("C5", "  Redis CPU a click", yardstickName, "≤ 0.15", grouped, naive, redisCPU, micros)
	b.compare("", "  Redis memory a click", yardstickName, "", grouped, naive, redisMemory, bytesEach)
	b.compare("", "  Redis log (AOF) a click", yardstickName, "", grouped, naive, redisWritten, bytesEach)
	const wideYardstickName = "naive, a Redis connection each"
	b.compare("", what, wideYardstickName, "", grouped, wide, rate, perSecond)
	b.compare("", "  Redis CPU a click", wideYardstickName, "", grouped, wide, redisCPU, micros)
}

// clickLoad is the load for the rows of the collector.
type clickLoad struct {
	client      redis.UniversalClient
	keys        []string
	connections int
}

// sendTo returns a side of a row: a function that sends clicks to a server for one round
// and measures them. fsync is Redis's appendfsync setting, or "" if the server does not
// use Redis.
func (c clickLoad) sendTo(p *process, fsync string) side {
	requests := make([][]byte, c.connections)
	for i := range requests {
		requests[i] = appendPost(nil, clicksPath, c.keys[i], clickBody)
	}
	return func(ctx context.Context) (sample, error) {
		var sent atomic.Int64
		load := traffic{
			address: p.address, processes: measuredProcesses{pid: p.pid}, connections: c.connections, measured: collectorRound, status: http.StatusCreated,
			request: func(dst []byte, connection int) []byte {
				sent.Add(1)
				return append(dst, requests[connection]...)
			},
		}
		if fsync == "" {
			got, err := load.run(ctx)
			if err != nil {
				err = p.fail(err)
			}
			return got, err
		}
		load.processes.redis = c.client
		if err := c.client.ConfigSet(ctx, "appendfsync", fsync).Err(); err != nil {
			return sample{}, err
		}
		before, err := redisLog(ctx, c.client)
		if err != nil {
			return sample{}, err
		}
		got, err := load.run(ctx)
		if err != nil {
			return sample{}, p.fail(err)
		}
		after, err := redisLog(ctx, c.client)
		if err != nil {
			return sample{}, err
		}
		// With 0 samples Redis examines every entry of the stream.
		memory, err := c.client.MemoryUsage(ctx, clickstream.Key(0), 0).Result()
		if err != nil {
			return sample{}, err
		}
		// The memory and the log include the clicks of the warm-up, so the number sent
		// includes these clicks too.
		clicks := float64(sent.Load())
		got.log, got.memory = (after-before)/clicks, float64(memory)/clicks
		// No consumer reads the stream, so delete the stream after the round.
		return got, c.client.Unlink(ctx, clickstream.Key(0)).Err()
	}
}

// fillDirectory writes merchants to the edge directory, in the same form as the core, and
// returns their public keys.
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
		key := account.NewKey(account.PublicKey, affiliate.ModeLive)
		keys[i] = key.Reveal()
		scope := affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](now), Mode: key.Mode}
		programID, participant := affiliate.NewID[affiliate.ProgramID](now), affiliate.NewID[affiliate.ParticipantID](now)
		batch.PutPublicKey(1, key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: scope.Workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE})
		batch.PutReferralCode(1, scope, clickCode, &edgev1.ReferralCodeEntry{
			ProgramId: programID.UUID[:], ParticipantId: participant.UUID[:], LinkId: programID.UUID[:],
			Active: true, AttributionWindowDays: 30, AttributionModel: string(program.LastClick),
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
