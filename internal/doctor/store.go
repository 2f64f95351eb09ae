package doctor

import (
	"context"
	"errors"
	"time"

	"colophon/storage"
	"colophon/storage/postgres"
)

// storeTimeout bounds the time for querying the database of the log.
const storeTimeout = 5 * time.Second

// askStore queries the database of the log, if it is not in the data folder.
func (d *deployment) askStore(ctx context.Context) {
	if d.settings.config.Store == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d.store = postgres.Probe(ctx, d.settings.config.Store)
}

// checkStore checks that the database of the log answers and does not lose commits.
func checkStore(d *deployment) []Finding {
	var setting *postgres.SettingError
	switch {
	case d.settings.config.Store == "":
		return finding(OK, "", "the log is in the data folder")
	case errors.As(d.store, &setting):
		return finding(Wrong, "set it to on; the server does not start otherwise", "%v", d.store)
	case errors.Is(d.store, storage.ErrFormat):
		return finding(Wrong, "use the version of colophon that wrote it", "%v", d.store)
	case d.store != nil:
		return finding(Wrong, "start the database, or correct --store", "the database of the log: %v", d.store)
	}
	return finding(OK, "", "the database of the log answers, and its settings lose no commit")
}
