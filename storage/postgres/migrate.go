package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
)

// migrations are the steps from one version of the tables to the next. The number of files is
// the version that this build reads. Released files never change.
//
// A step only adds tables, indexes that are not unique, and columns that old builds can leave
// out (TestMigrationsOnlyAdd), because servers of the build before write to the same tables
// while a rolling upgrade lasts, and can be restarted. If a step ever cannot do that, it first
// inserts the row with id 2 into colophon_schema, and the release notes say that all servers
// must be stopped: builds whose version is below that row do not open the database, but those
// that have it open do not look again.
//
//go:embed migrations/*.sql
var migrations embed.FS

const codeNoTable = "42P01"

// versions are the versions that the table colophon_schema has.
type versions struct {
	tables int // the row with id 1; 0 if there are no tables
	oldest int // the row with id 2: the version of the oldest build that can use the tables; 0 if there is none
}

// version reads the versions.
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

// check returns storage.ErrFormat unless a build that reads version known can use the tables.
func (v versions) check(known int) error {
	if v.oldest > known {
		return fmt.Errorf("%w: the tables have version %d, which needs a build that reads version %d, but this build reads version %d",
			storage.ErrFormat, v.tables, v.oldest, known)
	}
	return nil
}

// steps returns the text of each migration in order.
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

// migrate converts the tables to this build's version. Several processes can do so at once:
// every step can be repeated, and a step that fails because of another process is retried.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	texts, err := steps()
	if err != nil {
		return err
	}
	var between pause
	for attempt := 1; ; attempt++ {
		stored, err := version(ctx, pool)
		if err != nil {
			return err
		}
		if err := stored.check(len(texts)); err != nil || stored.tables >= len(texts) {
			return err
		}
		err = apply(ctx, pool, stored.tables, texts[stored.tables:])
		if err == nil {
			continue
		}
		// If two sessions create a table at the same time, PostgreSQL reports a duplicate.
		if attempt == maxMigrations {
			return fmt.Errorf("creating the tables: %w", err)
		}
		if err := between.wait(ctx); err != nil {
			return err
		}
	}
}

// maxMigrations is the largest number of attempts to migrate.
const maxMigrations = 5

func apply(ctx context.Context, pool *pgxpool.Pool, from int, texts []string) error {
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS colophon_schema (id bigint NOT NULL PRIMARY KEY, version bigint NOT NULL)`); err != nil {
		return err
	}
	for i, text := range texts {
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := pool.Exec(ctx, statement); err != nil {
				return fmt.Errorf("converting the tables to version %d: %w", from+i+1, err)
			}
		}
		_, err := pool.Exec(ctx, `INSERT INTO colophon_schema (id, version) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET version = excluded.version`, from+i+1)
		if err != nil {
			return fmt.Errorf("storing version %d of the tables: %w", from+i+1, err)
		}
	}
	return nil
}
