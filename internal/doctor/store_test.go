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
			d.settings.config.StoreURL = "postgres://db.example.org/colophon"
			d.store = err
		}
	}
	runCheckCases(t, checkStore, []checkCase{
		{"in the folder", func(*deployment) {}, VerdictOK, "the log is in the data folder"},
		{"elsewhere", elsewhere(nil), VerdictOK, "responds"},
		{"gone", elsewhere(errors.New("connection refused")), VerdictWrong, "connection refused"},
		{"later version", elsewhere(fmt.Errorf("%w: version 99", storage.ErrUnknownFormat)), VerdictWrong, "version 99"},
		{"pooler", elsewhere(fmt.Errorf("opening: %w", new(pooler.SharedSessionError))), VerdictWrong, "a pooler shares the database's sessions"},
		{"asynchronous standbys", func(d *deployment) {
			elsewhere(nil)(d)
			d.asynchronousStandbys = 2
		}, VerdictAdvice, "no commit waits for any of the database's 2 standbys"},
		{"setting", elsewhere(&postgres.ServerSettingError{Name: "fsync", Value: "off"}), VerdictWrong, "the database server's setting fsync is off"},
	})
}
