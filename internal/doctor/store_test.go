package doctor

import (
	"errors"
	"fmt"
	"testing"

	"colophon/storage"
	"colophon/storage/postgres"
	"colophon/storage/postgres/pooler"
)

func TestStore(t *testing.T) {
	elsewhere := func(err error) func(*deployment) {
		return func(d *deployment) {
			d.settings.config.Store = "postgres://db.example.org/colophon"
			d.store = err
		}
	}
	runCheckCases(t, checkStore, []checkCase{
		{"in the folder", func(*deployment) {}, OK, "the log is in the data folder"},
		{"elsewhere", elsewhere(nil), OK, "answers"},
		{"gone", elsewhere(errors.New("connection refused")), Wrong, "connection refused"},
		{"later version", elsewhere(fmt.Errorf("%w: version 99", storage.ErrFormat)), Wrong, "version 99"},
		{"pooler", elsewhere(fmt.Errorf("opening: %w", new(pooler.SharedSessionError))), Wrong, "a pooler shares the database's sessions"},
		{"setting", elsewhere(&postgres.SettingError{Name: "fsync"}), Wrong, "the server's setting fsync is off"},
	})
}
