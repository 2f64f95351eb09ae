// Package schema creates the tables in a PostgreSQL database, and converts existing tables to the
// version that this build requires.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
)

// migrations contains the steps that convert the tables from each version to the next. The number
// of files is the version that this build reads. Released files never change.
//
// A step only adds tables, indexes that are not unique, and columns that old builds can omit (see
// TestMigrationsOnlyAdd). During a rolling upgrade, servers of the previous build write to the same
// tables, and can be restarted. If a step ever has to do more, it must first insert the row with id
// 2 into colophon_schema. Builds whose version is below that row then refuse to open the database.
// Servers that already have the database open do not read the row again, so the release notes must
// say that all servers have to be stopped.
//
//go:embed migrations/*.sql
var migrations embed.FS

const codeNoTable = "42P01"

// versions holds the two versions that the table colophon_schema stores.
type versions struct {
	tables int // version of the tables (row with id 1); 0 if there are no tables
	oldest int // version of the oldest build that can use the tables (row with id 2); 0 if there is no such row
}

// version reads the stored versions. Both are 0 if there are no tables.
func version(ctx context.Context, pool *pgxpool.Pool) (v versions, err error) {
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version) FILTER (WHERE id = 1), 0), coalesce(max(version) FILTER (WHERE id = 2), 0)
		FROM colophon_schema`).Scan(&v.tables, &v.oldest)
	var reported *pgconn.PgError
	switch {
	case errors.As(err, &reported) && reported.Code == codeNoTable:
		return versions{}, nil
	case err != nil:
		return versions{}, fmt.Errorf("reading the version of the tables: %w", err)
	}
	return v, nil
}

// check returns storage.ErrUnknownFormat if the tables require a build that supports a later version than
// known.
func (v versions) check(known int) error {
	if v.oldest > known {
		return fmt.Errorf("%w: the tables have version %d, which requires a build that supports version %d, but this build supports only version %d; use a later build",
			storage.ErrUnknownFormat, v.tables, v.oldest, known)
	}
	return nil
}

// Check returns storage.ErrUnknownFormat if this build cannot use the tables, and nil if there are no
// tables.
func Check(ctx context.Context, pool *pgxpool.Pool) error {
	_, _, err := read(ctx, pool)
	return err
}

// CheckComplete returns an error unless the tables exist, are at least as new as this build requires,
// and can be used by this build.
func CheckComplete(ctx context.Context, pool *pgxpool.Pool) error {
	stored, known, err := read(ctx, pool)
	switch {
	case err != nil:
		return err
	case stored.tables == 0:
		return fmt.Errorf("%w: the database has no Colophon tables", storage.ErrNotFound)
	case stored.tables < known:
		return fmt.Errorf("%w: the tables have version %d, but this build reads version %d; to convert the tables, start a server of this build or run one of its commands that write to the database", storage.ErrUnknownFormat, stored.tables, known)
	}
	return nil
}

// read returns the stored versions and the version of this build. It returns an error if this build
// cannot use the tables.
func read(ctx context.Context, pool *pgxpool.Pool) (stored versions, known int, err error) {
	texts, err := steps()
	if err != nil {
		return versions{}, 0, err
	}
	if stored, err = version(ctx, pool); err != nil {
		return versions{}, 0, err
	}
	return stored, len(texts), stored.check(len(texts))
}

// steps returns the SQL text of each migration, in order.
func steps() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	texts := make([]string, 0, len(names))
	for _, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// Migrate creates the tables, or converts them to this build's version unless they are newer.
// Several processes can call it at the same time: every statement can safely be repeated, and
// Migrate retries a statement that fails because of another process.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	texts, err := steps()
	if err != nil {
		return err
	}
	for {
		stored, err := version(ctx, pool)
		if err != nil {
			return err
		}
		if err := stored.check(len(texts)); err != nil || stored.tables >= len(texts) {
			return err
		}
		if err := apply(ctx, pool, stored.tables, texts[stored.tables:]); err != nil {
			return fmt.Errorf("creating or converting the tables: %w", err)
		}
	}
}

const (
	attempts = 5                      // maximum number of attempts at one statement
	pause    = 100 * time.Millisecond // pause between two attempts
)

// execute runs a statement and retries it if it fails. If two sessions create the same table at the
// same time, PostgreSQL reports a duplicate to one of them. When that session retries the
// statement, the statement does nothing. Each statement has its own count of attempts, because
// servers that start together can collide at every statement.
func execute(ctx context.Context, pool *pgxpool.Pool, statement string, arguments ...any) error {
	for attempt := 1; ; attempt++ {
		_, err := pool.Exec(ctx, statement, arguments...)
		if err == nil || attempt == attempts {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func apply(ctx context.Context, pool *pgxpool.Pool, from int, texts []string) error {
	if err := execute(ctx, pool, `CREATE TABLE IF NOT EXISTS colophon_schema (id bigint NOT NULL PRIMARY KEY, version bigint NOT NULL)`); err != nil {
		return err
	}
	for i, text := range texts {
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if err := execute(ctx, pool, statement); err != nil {
				return fmt.Errorf("converting the tables to version %d: %w", from+i+1, err)
			}
		}
		err := execute(ctx, pool, `INSERT INTO colophon_schema (id, version) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET version = excluded.version`, from+i+1)
		if err != nil {
			return fmt.Errorf("storing version %d of the tables: %w", from+i+1, err)
		}
	}
	return nil
}
