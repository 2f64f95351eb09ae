package doctor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"colophon/api/access"
	"colophon/internal/datadir"
	"colophon/storage"
	"colophon/storage/postgres"
	"colophon/storage/postgres/pooler"
)

// storeTimeout is the time limit for all queries to the database that holds the log.
const storeTimeout = 5 * time.Second

// askStore probes the PostgreSQL database that holds the log, if there is one, and reads the tokens
// in it.
func (d *deployment) askStore(ctx context.Context) {
	if d.settings.config.StoreURL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d.asynchronousStandbys, d.store = postgres.Probe(ctx, d.settings.config.StoreURL)
	if d.store == nil {
		d.shared.tokens, d.shared.err = readShared(ctx, d.settings.config.StoreURL)
	}
}

// sharedTokens contains the tokens in the log's PostgreSQL database, or the error from reading
// them.
type sharedTokens struct {
	tokens []access.ListedToken
	err    error
}

// readShared returns the tokens in a database. A database without tables has no tokens.
func readShared(ctx context.Context, url string) ([]access.ListedToken, error) {
	database, err := postgres.Open(ctx, postgres.Config{URL: url, ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tokens, err := access.TokenStore{SharedStore: database}.List()
	return tokens, errors.Join(err, database.Close())
}

// listTokens returns the server's tokens. They are in the database that holds the log if there is
// one, and otherwise in the data folder.
func (d *deployment) listTokens() ([]access.ListedToken, error) {
	if d.settings.config.StoreURL != "" {
		return d.shared.tokens, errors.Join(d.store, d.shared.err)
	}
	return access.TokenStore{Dir: datadir.TokenFolder(d.data()), Now: func() time.Time { return d.now }}.List()
}

// checkStore checks that the database that holds the log can be reached, that its settings make
// commits durable, and that commits wait for a standby if there are standbys.
func checkStore(d *deployment) []Finding {
	var setting *postgres.ServerSettingError
	var shared *pooler.SharedSessionError
	switch {
	case d.settings.config.CopyURL != "":
		return finding(VerdictOK, "", "the log is loaded from a published copy into the data folder")
	case d.settings.config.StoreURL == "":
		return finding(VerdictOK, "", "the log is in the data folder")
	case errors.As(d.store, &setting):
		return finding(VerdictWrong, "turn on the setting; otherwise the server does not start", "%v", d.store)
	case errors.As(d.store, &shared):
		return finding(VerdictWrong, "make one of these changes; otherwise the server does not start", "%v", d.store)
	case errors.Is(d.store, storage.ErrUnknownFormat):
		return finding(VerdictWrong, "use the version of colophon that wrote the database", "%v", d.store)
	case d.store != nil:
		return finding(VerdictWrong, "start the database, or correct --store", "the log's database cannot be used: %v", d.store)
	case d.asynchronousStandbys > 0:
		return finding(VerdictAdvice, "set synchronous_standby_names on the database server, unless the standbys are never promoted",
			"no commit waits for any of the database's %d standbys, so promoting one can lose confirmed records", d.asynchronousStandbys)
	}
	return finding(VerdictOK, "", "the log's database responds, and its settings make every commit durable")
}
