package audit

import (
	"context"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Position is where a walk ended and the next one continues. The zero Position is the beginning.
type Position struct {
	Size   uint64             // walked entries
	Root   proofs.Hash        // of their tree
	Tip    proofs.Hash        // event_hash of the last
	Time   string             // of the last event (spec: Event body)
	Ledger string             // the name in the events
	Keys   *proofs.KeyHistory // from the events; nil at the beginning
	// MemberSecretHash is the commitment to the secret of payload members; "" if there is none.
	MemberSecretHash string
	Tally            Tally
}

// Seen is a checkpoint of the log that By saw earlier.
type Seen struct {
	proofs.Checkpoint
	By string
}

// Walked is a valid entry. Entry, Event, and Body are valid during the call that receives it.
type Walked struct {
	Seq   uint64
	Entry []byte
	Event pyjson.Value // the body of the entry
	Body  *event.Body  // the body, decoded
}

// Extension is what Extend needs beside Options.
type Extension struct {
	// From is where the walk begins. Past has everything that was added to it up to there, and
	// nothing more.
	From Position
	Past Past
	// Seen are earlier checkpoints of the log. Its tree must extend theirs.
	Seen []Seen
	// Each, if set, receives every entry, in order. Its error ends the walk.
	Each func(Walked) error
	// Reached, if set, is called after every 65,536 entries if these are shown to be in the
	// signed tree. Past then has everything up to the position. Its error ends the walk.
	Reached func(Position) error
}

// Extend walks a published log once, from where an earlier walk ended up to the head that it
// finds. It checks what Log checks, except what is stored beside the log, and that the log
// extends what was seen earlier. Errors are as for Log. The position is where the next walk can
// begin; it is From if there is damage.
func Extend(ctx context.Context, log Published, options Options, x Extension) (*Report, Position, error) {
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
