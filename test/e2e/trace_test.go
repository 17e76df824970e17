package e2e_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/postgres/privacy/inventory"
)

// dump returns the contents of all tables: one text for each table, with the rows in the form
// of Postgres.
func (sys *system) dump(t *testing.T) map[string]string {
	t.Helper()
	const tables = `
		select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('public', 'river')
		order by 1`
	all := map[string]string{}
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), tables)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, name := range names {
			var text string
			if err := conn.QueryRow(t.Context(), `select coalesce(string_agg(r::text, E'\n'), '') from `+name+` r`).Scan(&text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all[name] = text
		}
		return err
	})
	return all
}

// dumpRedis returns the keys of a Redis database with their contents. A key that expires
// within a minute is left out.
func dumpRedis(t *testing.T, url string) map[string]string {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	ctx, all := t.Context(), map[string]string{}
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		content, err := redisContent(ctx, client, key)
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			t.Fatalf("read %s: %v", key, err)
		default:
			all[key] = content
		}
	}
	return all
}

func redisContent(ctx context.Context, client *redis.Client, key string) (string, error) {
	kind, err := client.Type(ctx, key).Result()
	if err != nil {
		return "", err
	}
	if left, err := client.TTL(ctx, key).Result(); err != nil || left > 0 && left.Minutes() <= 1 {
		return "", errors.Join(err, redis.Nil)
	}
	switch kind {
	case "string":
		return client.Get(ctx, key).Result()
	case "hash":
		fields, err := client.HGetAll(ctx, key).Result()
		return fmt.Sprint(fields), err
	case "stream":
		entries, err := client.XRange(ctx, key, "-", "+").Result()
		return fmt.Sprint(entries), err
	case "zset":
		members, err := client.ZRange(ctx, key, 0, -1).Result()
		return fmt.Sprint(members), err
	case "none":
		return "", redis.Nil
	}
	return "", fmt.Errorf("a %s is not expected", kind)
}

// dumpFolder returns the contents of the files of a folder.
func dumpFolder(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all[path] = string(content)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

// traces returns where the contents contain one of the values, in clear text, in hexadecimal
// digits as Postgres shows bytes, or with the escapes of JSON.
func traces(contents map[string]string, values map[string]string) []string {
	var found []string
	for _, place := range slices.Sorted(maps.Keys(contents)) {
		content := strings.ToLower(place + "\n" + contents[place])
		for _, name := range slices.Sorted(maps.Keys(values)) {
			value := strings.ToLower(values[name])
			if strings.Contains(content, value) || strings.Contains(content, hex.EncodeToString([]byte(value))) {
				found = append(found, fmt.Sprintf("%s contains %s", place, name))
			}
		}
	}
	return found
}

// wantInventory checks that the rows of an erased subject are as the inventory of columns says.
// subject maps names of columns to ids: the rows of a table belong to the subject if its first
// existing column of order has the id of the subject.
func (sys *system) wantInventory(t *testing.T, erasure inventory.Erasure, order []string, subject map[string]string) {
	t.Helper()
	violation := map[inventory.Action]string{
		inventory.RowDeleted: `true`,
		inventory.Null:       `COLUMN is not null`,
		inventory.Pseudonym:  `COLUMN is not null and COLUMN::text !~ '^erased-[0-9a-f]{8}'`,
		inventory.Emptied:    `COLUMN is not null and COLUMN::text not in ('', '{}', '[]', '\x')`,
	}
	checked := 0
	for _, table := range inventory.Tables() {
		if table.Unlisted != "" || table.Name == "sessions" { // sessions are deleted after 20 minutes
			continue
		}
		var names []string
		for _, columns := range table.Columns {
			names = append(names, columns.Names...)
		}
		key := slices.IndexFunc(order, func(name string) bool { return slices.Contains(names, name) })
		own, isSubject := map[string]string{"users": "user_id", "conversions": "conversion_id"}[table.Name]
		if isSubject && slices.Contains(order, own) {
			key = slices.Index(order, own)
		}
		if key < 0 {
			continue
		}
		column := order[key]
		if column == own {
			column = "id"
		}
		for _, columns := range table.Columns {
			condition, ok := violation[table.Effect(columns, erasure)]
			if !ok {
				continue
			}
			for _, name := range columns.Names {
				checked++
				query := `select count(*) from ` + table.Name + ` where ` + column + ` = $1 and ` + strings.ReplaceAll(condition, "COLUMN", `"`+name+`"`)
				if n := sys.count(t, query, subject[order[key]]); n != 0 {
					t.Errorf("%s.%s: the inventory says %q, but %d rows differ", table.Name, name, table.Effect(columns, erasure), n)
				}
			}
		}
	}
	least := 40
	if erasure == inventory.BuyerErasure {
		least = 35
	}
	if checked < least {
		t.Errorf("only %d columns were checked", checked)
	}
}
