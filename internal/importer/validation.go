package importer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"colophon/client"
	"colophon/client/wire"
)

var errOtherText = errors.New("the validation was not sent: the path has a later record with another text")

// validate posts the validation of a path that follows the record at seq. The server validates the
// path's latest text, whatever it is. So if that is not the record's text, validate returns
// errOtherText, or a replayed receipt if a validation of the record's text is already in the log.
//
// The request does not name the fingerprint, because its digest must be the same as that of the
// line in a batch.
func validate(ctx context.Context, to *client.Ledger, l *line, a answer, seq uint64, v wire.PathValidation, options *client.ChangeOptions) (*wire.Receipt, error) {
	project, pathID := l.entry.Project(), l.entry.Change.PathID
	isRecords := func(row *wire.PathVersion) bool {
		return row.RecordSeq == seq || row.ContentFingerprint != nil && *row.ContentFingerprint == a.fingerprint
	}
	latest, done := new(wire.PathVersion), false
	for row, err := range to.Paths.History(project, pathID, &client.QueryOptions{AfterSeq: seq, Limit: 1000}).All(ctx) {
		if err != nil {
			if problem := (*client.Error)(nil); !a.replayed && errors.As(err, &problem) && problem.Status == http.StatusForbidden {
				latest = nil // the caller can only write; the record is new, so it is the latest
				break
			}
			return nil, fmt.Errorf("reading the path's history: %w", err)
		}
		if row.Kind == wire.KindPathFingerprint {
			latest = row
		} else {
			done = done || row.Validated && isRecords(row)
		}
	}
	switch {
	case latest == nil || isRecords(latest):
		return to.Paths.Validate(ctx, project, pathID, v, options)
	case done:
		return &wire.Receipt{Replayed: true}, nil
	}
	return nil, fmt.Errorf("%w (event %d)", errOtherText, latest.RecordSeq)
}
