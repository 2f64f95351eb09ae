package audit

import (
	"context"

	"colophon/ledger/event"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Position is the point in a log at which one walk ended and the next one continues. The zero
// Position is the beginning of the log.
type Position struct {
	Size   uint64             // number of entries walked so far
	Root   proofs.Hash        // root of the tree of these entries
	Tip    proofs.Hash        // event_hash of the last entry
	Time   string             // time of the last event (spec: Event body)
	Ledger string             // name of the ledger, as stated in the events
	Keys   *proofs.KeyHistory // signing keys that the events introduce; nil at the beginning of the log
	// PayloadMemberSecretHash is the ledger's commitment to the secret that keys the digests of
	// payload members, or "" if there is no commitment.
	PayloadMemberSecretHash string
	Tally                   Tally // totals over the entries walked so far
}

// SeenCheckpoint is a checkpoint of the log that was seen earlier.
type SeenCheckpoint struct {
	proofs.Checkpoint
	SeenBy string // names the observer in messages
}

// WalkedEntry is an entry that the walk has found to be valid. Entry, ParsedBody, and Body are
// valid only during the call to which they are passed.
type WalkedEntry struct {
	Seq        uint64
	Entry      []byte       // previous event_hash, followed by the body
	ParsedBody pyjson.Value // the entry's body as a JSON value
	Body       *event.Body  // the entry's body, decoded into the members of an event
}

// ExtendOptions holds the options of ExtendWalk, in addition to Options.
type ExtendOptions struct {
	// Start is the position at which the walk begins. History must contain exactly what earlier
	// walks added to it up to that position.
	Start   Position
	History History // what earlier walks recorded about the entries before Start
	// SeenCheckpoints holds checkpoints that were seen earlier. The log's tree must extend the tree of each of
	// them.
	SeenCheckpoints []SeenCheckpoint
	// OnEntry, if set, is called with every entry, in order. If it returns an error, the walk stops
	// and returns that error.
	OnEntry func(WalkedEntry) error
	// OnVerified, if set, is called after every 65,536 entries if the walk has verified that the
	// signed tree contains these entries. At that time, History contains everything up to the given
	// position. If OnVerified returns an error, the walk stops and returns that error.
	OnVerified func(Position) error
}

// ExtendWalk walks a published log once, from the end of an earlier walk to the current head. It
// runs all checks of WalkLog that do not need data from storage. It also checks that the log
// extends the checkpoints in x.SeenCheckpoints. It returns errors in the same cases as WalkLog. The
// next walk can begin at the returned position, which is x.Start if there is damage.
func ExtendWalk(ctx context.Context, log PublishedLog, options Options, x ExtendOptions) (*Report, Position, error) {
	w, err := newWalk(ctx, log, nil, options, x)
	if err != nil {
		return nil, x.Start, err
	}
	if x.Start.Size > 0 {
		if err := w.resume(x.Start); err != nil {
			return nil, x.Start, err
		}
	}
	report, err := w.run()
	if err != nil || report.Damage != nil {
		return report, x.Start, err
	}
	return report, w.position(), nil
}
