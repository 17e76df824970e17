package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

func queueFraudEvent(_ *pgx.Batch, _ affiliate.Conversion, _ affiliate.Decision, _ *affiliate.Commission) error {
	return nil
}

func fraudEvents(_ affiliate.Conversion, _ affiliate.Decision) []affiliate.Event { return nil }
