package audit

import (
	"context"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Position is the point where a walk ended and the next one continues. The zero Position is
// the beginning of the log.
type Position struct {
	Size   uint64             // number of walked entries
	Root   proofs.Hash        // root of their tree
	Tip    proofs.Hash        // event_hash of the last entry
	Time   string             // time of the last event (spec: Event body)
	Ledger string             // the name in the events
	Keys   *proofs.KeyHistory // the keys in the events; nil at the beginning
	// MemberSecretHash is the commitment to the secret of payload members; "" if there is none.
	MemberSecretHash string
	Tally            Tally
}

// SeenCheckpoint is a checkpoint of the log that the party By saw earlier.
type SeenCheckpoint struct {
	proofs.Checkpoint
	By string
}

// WalkedEntry is a valid entry. Entry, Event, and Body are valid only during the call that receives
// it.
type WalkedEntry struct {
	Seq   uint64
	Entry []byte
	Event pyjson.Value // the body of the entry
	Body  *event.Body  // the body, decoded
}

// ExtendOptions holds what Extend needs in addition to Options.
type ExtendOptions struct {
	// From is the position where the walk begins. Past must hold exactly what earlier walks
	// added up to this position.
	From Position
	Past History
	// Seen are earlier checkpoints. The log's tree must extend each of their trees.
	Seen []SeenCheckpoint
	// Each, if set, receives every entry, in order. If Each returns an error, the walk stops and
	// returns it.
	Each func(WalkedEntry) error
	// Reached, if set, is called after every 65,536 entries, provided that these are shown to be in
	// the signed tree. Past then holds everything up to the position. If Reached returns an error,
	// the walk stops and returns it.
	Reached func(Position) error
}

// ExtendWalk walks a published log once, from where an earlier walk ended up to the head that it finds.
// It makes the same checks as WalkLog, except those of data that only storage has. It also checks that
// the log extends the checkpoints that were seen earlier. It returns errors in the same cases as
// WalkLog. The returned position is where the next walk can begin; if there is damage, it is From.
func ExtendWalk(ctx context.Context, log PublishedLog, options Options, x ExtendOptions) (*Report, Position, error) {
	w, err := newWalk(ctx, log, nil, options, x)
	if err != nil {
		return nil, x.From, err
	}
	if x.From.Size > 0 {
		if err := w.resume(x.From); err != nil {
			return nil, x.From, err
		}
	}
	report, err := w.run()
	if err != nil || report.Damage != nil {
		return report, x.From, err
	}
	return report, w.position(), nil
}
