package reference

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"colophon/client/wire"
	"colophon/ledger/query"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// Receipt returns the receipt of the event at seq, with an inclusion proof in the tree of the given
// size. The receipt's checkpoint has no signature.
func (l *Log) Receipt(ctx context.Context, seq, size uint64) (*proofs.Receipt, error) {
	path, err := l.tree.InclusionProof(seq, size)
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
		return nil, fmt.Errorf("reading event %d of the local copy of the log: %w", seq, err)
	}
	receipt.Proof = &proofs.ReceiptProof{Event: entry[proofs.HashSize:], Inclusion: proofs.InclusionProof{LeafIndex: seq, TreeSize: size, Hashes: path}, Checkpoint: checkpoint}
	return receipt, nil
}

// StageProof returns the nested proof of a stage of the run-DAG at seq, in the tree of the given
// size (spec: Nested proofs).
func (l *Log) StageProof(ctx context.Context, seq, size uint64, stage string) (*proofs.NestedProof, error) {
	nested, record, err := l.nested(ctx, seq, size)
	if err == nil {
		nested.Stage, err = stageOf(record, stage)
	}
	return nested, err
}

// CitationProof returns the nested proof of the citation at index n of the citation set at seq,
// in the tree of the given size (spec: Nested proofs).
func (l *Log) CitationProof(ctx context.Context, seq, size, n uint64) (*proofs.NestedProof, error) {
	nested, record, err := l.nested(ctx, seq, size)
	if err == nil {
		nested.Citation, err = citationOf(record, n)
	}
	return nested, err
}

// nested returns a nested proof without its stage or citation, which the caller must fill in. It
// also returns the record in the event.
func (l *Log) nested(ctx context.Context, seq, size uint64) (*proofs.NestedProof, pyjson.Value, error) {
	receipt, err := l.Receipt(ctx, seq, size)
	if err != nil {
		return nil, pyjson.Value{}, err
	}
	var document pyjson.Document
	if err := document.Parse(receipt.Proof.Event); err != nil {
		return nil, pyjson.Value{}, fmt.Errorf("reading event %d of the local copy of the log: %w", seq, err)
	}
	return &proofs.NestedProof{Receipt: receipt}, document.Root().Member("record"), nil
}

// stageOf returns the proof that a run-DAG has the named stage.
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
		return nil, &query.Error{Reason: query.ReasonNotFound, Detail: "the event has no such stage"}
	}
	return &proofs.NestedStage{Name: stages[proof.Index].Name, Index: uint64(proof.Index), Hash: proof.Hash, Root: proof.Root, Path: proof.Path}, nil
}

// citationOf returns the citation at index n of a citation set.
func citationOf(record pyjson.Value, n uint64) (*proofs.NestedCitation, error) {
	citations := slices.Collect(record.Member("citations").Elements())
	if n >= uint64(len(citations)) {
		return nil, &query.Error{Reason: query.ReasonNotFound, Detail: "the event has no such citation"}
	}
	return &proofs.NestedCitation{Index: n, ChunkHash: string(citations[n].Member("chunk_hash").Text())}, nil
}

// InclusionProof returns the inclusion proof of the event at seq in the tree of the given size.
func (l *Log) InclusionProof(seq, size uint64) (wire.ProofAnswer, error) {
	path, err := l.tree.InclusionProof(seq, size)
	return wire.ProofAnswer{AsOf: size, Hashes: hexOf(path)}, err
}

// ConsistencyProof returns the consistency proof between two sizes, with the unsigned checkpoint of
// the second size.
func (l *Log) ConsistencyProof(ctx context.Context, first, second uint64) (wire.ProofAnswer, error) {
	path, err := l.tree.ConsistencyProof(first, second)
	if err != nil {
		return wire.ProofAnswer{}, err
	}
	checkpoint, err := l.Checkpoint(ctx, second)
	return wire.ProofAnswer{AsOf: second, Hashes: hexOf(path), Checkpoint: string(checkpoint)}, err
}

func hexOf(hashes []proofs.Hash) []string {
	list := make([]string, len(hashes))
	for i, hash := range hashes {
		list[i] = hex.EncodeToString(hash[:])
	}
	return list
}

// event returns the event at seq in the form of a line in the response to /events.
func (l *Log) event(seq uint64) (*wire.EventLine, error) {
	entry, err := l.read(seq)
	if err != nil {
		return nil, err
	}
	prev, body, err := proofs.SplitEntry(entry)
	if err != nil {
		return nil, fmt.Errorf("reading event %d of the local copy of the log: %w", seq, err)
	}
	hash := proofs.EventHash(prev, body)
	return &wire.EventLine{Seq: seq, EventHash: hex.EncodeToString(hash[:]), Entry: entry, Event: body}, nil
}

// Events returns up to limit events, starting with the event at seq from. It returns fewer at the
// end of the log.
func (l *Log) Events(from uint64, limit int) ([]*wire.EventLine, error) {
	var events []*wire.EventLine
	for seq := from; seq < min(from+uint64(limit), l.Size()); seq++ {
		event, err := l.event(seq)
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// Description returns the description of the ledger. Members that the log does not determine are
// empty.
func (l *Log) Description() (wire.LedgerDescription, error) {
	d := wire.LedgerDescription{Name: l.name, TreeSize: l.Size()}
	last, err := l.event(d.TreeSize - 1)
	if err != nil {
		return d, err
	}
	var event struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(last.Event, &event); err != nil {
		return d, fmt.Errorf("reading event %d of the local copy of the log: %w", last.Seq, err)
	}
	root, err := l.tree.Root(d.TreeSize)
	d.RootHash, d.Tip, d.LastEventTime = hex.EncodeToString(root[:]), last.EventHash, wire.Time(event.Time.Format(time.RFC3339Nano))
	return d, err
}
