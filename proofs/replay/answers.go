package replay

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"colophon/client/wire"
	"colophon/ledger/query"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// receipt returns the receipt of an event, with the proof for a size.
func (l *logCopy) receipt(ctx context.Context, seq, size uint64) (*proofs.Receipt, error) {
	path, err := l.tree.Inclusion(seq, size)
	if err != nil {
		return nil, err
	}
	entry, err := l.read(seq)
	if err != nil {
		return nil, err
	}
	checkpoint, err := l.Checkpoint(ctx, size)
	if err != nil {
		return nil, err
	}
	receipt, err := proofs.NewReceipt(entry)
	if err != nil {
		return nil, fmt.Errorf("event %d of the copy of the log: %w", seq, err)
	}
	receipt.Proof = &proofs.Proof{Event: entry[proofs.HashSize:], Inclusion: proofs.Inclusion{LeafIndex: seq, TreeSize: size, Hashes: path}, Checkpoint: checkpoint}
	return receipt, nil
}

// proof answers a question for the receipt of a record, as JSON or as a .tlog-proof, or for the
// proof of a stage or a citation of it (spec: Nested proofs).
func (l *logCopy) proof(ctx context.Context, q question, size uint64) (any, error) {
	seq, err := query.ParseCount("seq", strings.Split(q.path, "/")[2])
	if err != nil {
		return nil, err
	}
	receipt, err := l.receipt(ctx, seq, size)
	if err != nil || q.form == receiptForm {
		return receipt, err
	}
	if q.form == tlogProofForm {
		proof, err := receipt.TlogProof()
		if err != nil {
			return nil, err
		}
		return proof.Append(nil), nil
	}
	var document pyjson.Document
	if err := document.Parse(receipt.Proof.Event); err != nil {
		return nil, fmt.Errorf("event %d of the copy of the log: %w", seq, err)
	}
	nested, record := &proofs.Nested{Receipt: receipt}, document.Root().Member("record")
	if q.values.Has("stage") {
		nested.Stage, err = stageOf(record, q.values.Get("stage"))
	} else {
		nested.Citation, err = citationOf(record, q.values.Get("citation"))
	}
	if err != nil {
		return nil, err
	}
	return nested.AppendJSON(nil)
}

// stageOf proves that a run-DAG has a stage.
func stageOf(record pyjson.Value, name string) (*proofs.NestedStage, error) {
	var stages []rules.Stage
	for node := range record.Member("nodes").Elements() {
		stages = append(stages, rules.Stage{Name: string(node.Member("stage").Text()), Hash: string(node.Member("hash").Text())})
	}
	proof, found, err := rules.ProveStage(stages, name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, &query.Error{Reason: query.NotFound, Detail: "the event has no such stage"}
	}
	return &proofs.NestedStage{Name: stages[proof.Index].Name, Index: uint64(proof.Index), Hash: proof.Hash, Root: proof.Root, Path: proof.Path}, nil
}

// citationOf returns a citation of a set by its number.
func citationOf(record pyjson.Value, number string) (*proofs.NestedCitation, error) {
	n, err := query.ParseCount("citation", number)
	if err != nil {
		return nil, err
	}
	citations := slices.Collect(record.Member("citations").Elements())
	if n >= uint64(len(citations)) {
		return nil, &query.Error{Reason: query.NotFound, Detail: "the event has no such citation"}
	}
	return &proofs.NestedCitation{Index: n, ChunkHash: string(citations[n].Member("chunk_hash").Text())}, nil
}

// inclusion answers a question for an inclusion proof.
func (l *logCopy) inclusion(q question, size uint64) (any, error) {
	seq, err := query.ParseCount("seq", q.values.Get("seq"))
	if err != nil {
		return nil, err
	}
	path, err := l.tree.Inclusion(seq, size)
	return wire.HashList{AsOf: size, Hashes: hexOf(path)}, err
}

// consistency answers a question for a consistency proof.
func (l *logCopy) consistency(ctx context.Context, q question, size uint64) (any, error) {
	first, err := query.ParseCount("first", q.values.Get("first"))
	if err != nil {
		return nil, err
	}
	path, err := l.tree.Consistency(first, size)
	if err != nil {
		return nil, err
	}
	checkpoint, err := l.Checkpoint(ctx, size)
	return wire.HashList{AsOf: size, Hashes: hexOf(path), Checkpoint: string(checkpoint)}, err
}

func hexOf(hashes []proofs.Hash) []string {
	list := make([]string, len(hashes))
	for i, hash := range hashes {
		list[i] = hex.EncodeToString(hash[:])
	}
	return list
}

// event returns an event as a line of the log.
func (l *logCopy) event(seq uint64) (*wire.EventLine, error) {
	entry, err := l.read(seq)
	if err != nil {
		return nil, err
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("event %d of the copy of the log: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	return &wire.EventLine{Seq: seq, EventHash: hex.EncodeToString(hash[:]), Entry: entry, Event: body}, nil
}

// events answers a question for a page of the log, and sets its link to the next page.
func (l *logCopy) events(q question, header http.Header) (any, error) {
	from, err := query.ParseCount("from", q.values.Get("from"))
	limit, errLimit := query.ParseLimit(q.values.Get("limit"), maxRows)
	if err := errors.Join(err, errLimit); err != nil {
		return nil, err
	}
	end := min(from+uint64(limit), l.shown())
	if end < l.shown() {
		header.Set("Link", fmt.Sprintf(`</v1/ledgers/%s/events?from=%d&limit=%d>; rel="next"`, l.name, end, limit))
	}
	var text []byte
	for seq := from; seq < end; seq++ {
		event, err := l.event(seq)
		if err != nil {
			return nil, err
		}
		line, err := encode(event)
		if err != nil {
			return nil, err
		}
		text = append(text, line...)
	}
	return text, nil
}

// describe describes the ledger. What its log does not determine is empty.
func (l *logCopy) describe() (wire.LedgerDescription, error) {
	d := wire.LedgerDescription{Name: l.name, TreeSize: l.shown()}
	last, err := l.event(d.TreeSize - 1)
	if err != nil {
		return d, err
	}
	var event struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(last.Event, &event); err != nil {
		return d, fmt.Errorf("event %d of the copy of the log: %w", last.Seq, err)
	}
	root, err := l.tree.Root(d.TreeSize)
	d.RootHash, d.Tip, d.LastEvent = hex.EncodeToString(root[:]), last.EventHash, wire.Time(event.Time.Format(time.RFC3339Nano))
	return d, err
}
