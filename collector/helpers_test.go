package collector

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }
