package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"colophon/client/wire"
	"colophon/proofs"
)

// ExportTrailer contains the signed manifest of an export, which proves the rows, and the answer without its rows.
// It also contains the leaf hashes of the rows.
type ExportTrailer struct {
	Manifest          string          // signed note that contains a proofs.ExportManifest
	AnswerWithoutRows json.RawMessage // the JSON of the answer, without its rows
	LeafHashes        []proofs.Hash   // RFC 6962 leaf hash of each row, in order
}

// Export reads all rows of a list or query at one tree size: GET /export. question is a path relative to the path of
// the ledger, such as /records?kind=ipc_record. asOf is the tree size, or 0 for the current one. Export calls row
// with the JSON text of each row, which is valid only during the call. If the client has keys, Export checks that
// the ledger signed the manifest and that the manifest covers exactly these rows. If this check fails, Export
// returns both the trailer and the error, which can be one from proofs.OpenExport. If the response is cut off,
// Export returns an error. It does not repeat the request, because the caller might already have used the first
// rows.
func (l *Ledger) Export(ctx context.Context, question string, asOf uint64, row func(text []byte) error) (*ExportTrailer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"question": {question}}
	setCount(query, "as_of", asOf)
	response, err := l.client.sendStream(ctx, get(l.path+"/export", query), cancel)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	e := new(ExportTrailer)
	lines := l.client.lines(response.Body, cancel)
	for lines.Scan() {
		var line wire.ExportLine
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case e.Manifest != "":
			return nil, fmt.Errorf("%w: the export continues after its manifest", ErrUnexpectedResponse)
		case err != nil:
			return nil, fmt.Errorf("%w: line %d of the export is malformed: %w", ErrUnexpectedResponse, len(e.LeafHashes)+1, err)
		case (line.Manifest == "") == (line.Row == nil):
			return nil, fmt.Errorf("%w: line %d of the export must have either a row or the manifest", ErrUnexpectedResponse, len(e.LeafHashes)+1)
		case line.Manifest != "":
			e.Manifest, e.AnswerWithoutRows = line.Manifest, line.Rest
			continue
		}
		e.LeafHashes = append(e.LeafHashes, proofs.LeafHash(line.Row))
		if err := row(line.Row); err != nil {
			return nil, err
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case e.Manifest == "":
		return nil, fmt.Errorf("%w: the export ended before the manifest arrived", ErrUnreachable)
	case l.hasVerifiers():
		return e, e.verify(l.client.verifiers[l.name])
	}
	return e, nil
}

// verify checks that one of keys signed the manifest, and that the manifest covers the rows that were read
// and the rest of the answer.
func (e *ExportTrailer) verify(keys []*proofs.Verifier) error {
	m, err := proofs.OpenExport([]byte(e.Manifest), keys...)
	if err != nil {
		return err
	}
	return m.VerifyRows(e.LeafHashes, e.AnswerWithoutRows)
}
