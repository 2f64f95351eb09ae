package migrate

import (
	"context"
	"io"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/storage"
	"colophon/storage/postgres"
)

// place is one side of a migration: a data folder, or a database. No matter when the migration is
// interrupted, a server can start on at most one of the two sides.
type place interface {
	// String returns the name of the place, for use in messages. It contains no password.
	String() string
	// openSource opens the ledgers to copy.
	openSource(ctx context.Context) (storage.Database, error)
	// hold locks the source so that no server can use it.
	hold(ctx context.Context, peer place) error
	// moved reports whether leave has marked the source as moved. Call it after openSource.
	moved(ctx context.Context) (bool, error)
	// openTarget opens a place that receives the ledgers. No server can start on it until arrive is called. If
	// an earlier call to arrive has made its ledgers ready, complete is true, and the database is read-only.
	// If resume is true, the place must have been opened as a target before.
	openTarget(ctx context.Context, peer place, resume bool) (database storage.Database, complete bool, err error)
	// leave marks the source as moved. From then on, no server can start on it.
	leave(ctx context.Context, peer place) error
	// arrive makes the target ready for a server. It is called after leave.
	arrive(ctx context.Context) error
	// unarrive undoes arrive, and unleave undoes leave. unarrive is called first, and returns a database that
	// no server can use.
	unarrive(ctx context.Context, peer place) (storage.Database, error)
	unleave(ctx context.Context) error
	// tokens returns the token store. The place must be open.
	tokens() access.TokenStore
	// advise tells the user what remains to be done after the named ledgers have been moved.
	advise(names []string)
	// close closes the database if it is open and releases all locks.
	close() error
}

// parsePlaces returns the places given by --from and --to. One of them must be a folder and the
// other a database.
func parsePlaces(c *cli.Console, from, to string) (source, target place, err error) {
	switch {
	case from == "" || to == "":
		return nil, nil, cli.ExitErrorf(cli.ExitUsage, "--from and --to are required: one must be a data folder, and the other the URL of a PostgreSQL database")
	case postgres.IsURL(from) == postgres.IsURL(to):
		return nil, nil, cli.ExitErrorf(cli.ExitUsage, "--from and --to: one must be a data folder, and the other the URL of a PostgreSQL database (postgres://user@host/database)")
	case postgres.IsURL(from):
		return &postgresPlace{console: c, url: from}, &folder{console: c, data: to}, nil
	}
	return &folder{console: c, data: from}, &postgresPlace{console: c, url: to}, nil
}

// closeHeld closes *held unless it is nil, and sets it to nil.
func closeHeld[T interface {
	comparable
	io.Closer
}](held *T) error {
	var none T
	it := *held
	if *held = none; it == none {
		return nil
	}
	return it.Close()
}
