package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

func queueFraudFacts(_ *pgx.Batch, _ affiliate.Conversion, _ *affiliate.AttributionInputs) {}
