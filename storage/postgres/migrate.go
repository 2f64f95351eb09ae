package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"colophon/storage"
)

// migrations are the steps from one version of the tables to the next. The number of files is
// the version that this build reads. Released files never change.
//
//go:embed migrations/*.sql
var migrations embed.FS

const codeNoTable = "42P01"

// version returns the version of the tables, or 0 if there are none.
func version(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	var stored int
	err := pool.QueryRow(ctx, `SELECT version FROM colophon_schema WHERE id = 1`).Scan(&stored)
	var reported *pgconn.PgError
	switch {
	case errors.As(err, &reported) && reported.Code == codeNoTable, errors.Is(err, pgx.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the version of the tables: %w", err)
	}
	return stored, nil
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

// checkVersion returns storage.ErrFormat unless this build reads the version.
func checkVersion(stored, known int) error {
	if stored > known {
		return fmt.Errorf("%w: the tables have version %d, but this build reads version %d", storage.ErrFormat, stored, known)
	}
	return nil
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
		if err := checkVersion(stored, len(texts)); err != nil || stored == len(texts) {
			return err
		}
		err = apply(ctx, pool, stored, texts[stored:])
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
