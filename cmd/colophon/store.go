package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"colophon/internal/archive"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/folderlock"
	"colophon/storage"
	"colophon/storage/pebble"
	"colophon/storage/postgres"
)

// storeFlag is the --store flag of commands that use a server's database.
type storeFlag struct{ url string }

func (s *storeFlag) bind(flags *pflag.FlagSet, what string) {
	flags.StringVar(&s.url, "store", "", "`URL` of the PostgreSQL database of the "+what+", as for serve, or COLOPHON_STORE; the default is the data folder")
}

// value returns the URL from the flag or the environment variable, or "" if the log is in the data
// folder. The variable is not the flag's default value, because the help text prints default values
// and the URL can contain a password.
func (s *storeFlag) value(c *cli.Console, command *cobra.Command) string {
	if !command.Flags().Changed("store") {
		return c.EnvOr("COLOPHON_STORE", "")
	}
	return s.url
}

// openDatabase opens the ledgers of a stopped server. If url is empty, it opens those in the data
// folder; otherwise, it opens those in the PostgreSQL database at url. In both cases, it locks the
// data folder. If readOnly is set, other servers that use the PostgreSQL database keep running;
// otherwise, the command takes over their ledgers. Archived entries are read from the bucket that
// is recorded in the database.
func openDatabase(ctx context.Context, c *cli.Console, data, url string, readOnly bool) (storage.Database, error) {
	database, err := openStored(ctx, c, data, url, readOnly)
	if err != nil {
		return nil, err
	}
	return archive.Wrap(database, archive.Options{}), nil
}

// openStored is like openDatabase but does not read archived entries.
func openStored(ctx context.Context, c *cli.Console, data, url string, readOnly bool) (storage.Database, error) {
	switch {
	case url == "" && readOnly:
		return datadir.OpenWithConfig(ctx, c, data, pebble.Config{ReadOnly: true})
	case url == "":
		return datadir.Open(ctx, c, data)
	}
	if err := datadir.CheckPermissions(data); err != nil {
		return nil, err
	}
	if err := datadir.CheckExternalStore(data); err != nil {
		return nil, err
	}
	lock, err := folderlock.Take(datadir.ExternalStoreMarker(data))
	if err != nil {
		return nil, datadir.ExplainOpenError(err, data)
	}
	database, err := postgres.Open(ctx, postgres.Config{URL: url, Logger: c.WarningLogger(), ReadOnly: readOnly})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lockedDatabase{database, lock}, nil
}

// lockedDatabase is a PostgreSQL database whose Close also unlocks the data folder.
type lockedDatabase struct {
	*postgres.Database
	lock io.Closer
}

// Close implements storage.Database.
func (d lockedDatabase) Close() error { return errors.Join(d.Database.Close(), d.lock.Close()) }
