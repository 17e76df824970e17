package assemble

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPoolCollector_ShowsWaitsForConnections(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(poolCollector{"calls": pool})
	registry.MustRegister(poolCollector{}) // two collectors in one registry
	values := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				name := strings.TrimPrefix(family.GetName(), "tributary_postgres_")
				for _, label := range metric.GetLabel() {
					if label.GetName() == "state" {
						name = label.GetValue()
					}
				}
				all[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
		return all
	}
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := values()
	if len(before) != 6 || before["used"] != 1 || before["idle"] != 0 || before["opening"] != 0 || before["connections_max"] != 1 {
		t.Errorf("with the only connection in use the metrics are %v", before)
	}
	acquired := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pool.Acquire(ctx)
		if err == nil {
			conn.Release()
		}
		acquired <- err
	}()
	// A goroutine that waits for a connection is not visible, so the connection is held for
	// much longer than a goroutine needs to start.
	time.Sleep(time.Second)
	held.Release()
	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
	after := values()
	if waits, seconds := after["connection_waits_total"]-before["connection_waits_total"], after["connection_wait_seconds_total"]-before["connection_wait_seconds_total"]; waits != 1 || seconds < 0.05 || after["used"] != 0 || after["idle"] != 1 {
		t.Errorf("after a wait of 1 s the metrics are %v, before they were %v", after, before)
	}
}
