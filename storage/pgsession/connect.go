package pgsession

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout is the longest time that a program waits for one server of a connection
// string. Without it, a server that does not respond would use up all the time, and the
// other servers of the string would not be tried.
const connectTimeout = 5 * time.Second

// Connect opens a connection to the database at url.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// ParsePool returns the configuration of a pool of connections to the database at url.
func ParsePool(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.ConnConfig.ConnectTimeout = connectTimeout
	return config, nil
}
