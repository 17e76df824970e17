package main

import (
	"context"
	"net/http"
	"time"
)

const (
	healthPath = "/api/v1/health"
	// gatewayClients is the number of requests in flight.
	gatewayClients = 16
	gatewayRound   = time.Second
)

// measureGateway measures row V4: a route of the gateway and the core, in one process,
// that does not use the database.
func measureGateway(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "gateway", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	bare, err := b.startBare(ctx, `{"click_id":"00000000-0000-0000-0000-000000000000"}`)
	if err != nil {
		return err
	}
	defer bare.stop()
	get := func(p *process) side {
		return func(ctx context.Context) (sample, error) {
			got, err := traffic{
				address: p.address, processes: measuredProcesses{pid: p.pid}, connections: gatewayClients, measured: gatewayRound, status: http.StatusOK,
				request: func(dst []byte, _ int) []byte {
					return append(dst, "GET "+healthPath+" HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: "+browser+"\r\n\r\n"...)
				},
			}.run(ctx)
			if err != nil {
				err = p.fail(err)
			}
			return got, err
		}
	}
	got, err := b.takeTurns(ctx, "gateway", get(core), b.yardstick(get(bare)))
	if err != nil {
		return err
	}
	const yardstickName = "net/http + encoding/json"
	b.compare("V4", "GET "+healthPath+", 16 in flight", yardstickName, "≥ 0.65", got[0], got[1], rate, perSecond)
	b.compare("", "  CPU a request", yardstickName, "", got[0], got[1], cpu, micros)
	return nil
}
