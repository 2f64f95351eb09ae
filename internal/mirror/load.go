package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
)

// Limits on a commit. Its last entry can make it larger than batchBytes.
const (
	batchEntries = 4096
	batchBytes   = 4 << 20
)

// parallel is the maximum number of concurrent requests.
const parallel = 4

// refusal is the reason why a copy is not served.
type refusal struct {
	reason int // index into reasons
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(reason int, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// source is the published copy of a log, and the keys that are trusted to sign it.
type source struct {
	client  *fetch.Client
	trusted []*proofs.Verifier
}

// newest is a published copy as of its newest checkpoint.
type newest struct {
	log        *fetch.Log
	note       []byte
	checkpoint proofs.Checkpoint
}

// open reads the checkpoint of the copy and verifies its signature. known is the number of events that have
// already been verified, and walked is the history of the keys in these events, or nil if known is 0.
func (s *source) open(ctx context.Context, walked *proofs.KeyHistory, known uint64) (*newest, error) {
	successors, err := s.successors(ctx, walked)
	if err != nil {
		return nil, err
	}
	log, err := fetch.OpenLog(ctx, s.client, slices.Concat(s.trusted, successors), parallel)
	if err != nil {
		return nil, asRefusal(err)
	}
	n := &newest{log: log, note: log.Checkpoint()}
	if walked == nil {
		n.checkpoint, err = proofs.OpenCheckpoint(n.note, slices.Concat(s.trusted, successors)...)
	} else {
		n.checkpoint, err = walked.OpenLaterCheckpoint(n.note, known, s.trusted, successors)
	}
	if err != nil {
		return nil, refuse(signature, "the checkpoint of the copy is not signed by the given key or one of its successors: %v", err)
	}
	if n.checkpoint.Size == 0 {
		return nil, refuse(damaged, "the checkpoint of the copy covers no events")
	}
	return n, nil
}

// note reads an object of the copy. The object must not be longer than fetch.MaxNoteBytes bytes.
func (s *source) note(ctx context.Context, path string) ([]byte, error) {
	note, err := s.client.GetObject(ctx, path, fetch.MaxNoteBytes)
	if errors.Is(err, fetch.ErrTooLong) || errors.Is(err, fetch.ErrMalformed) {
		err = refuse(damaged, "%v", err)
	}
	return note, err
}

// successors returns the keys that have replaced trusted keys, according to the handovers in the
// copy.
func (s *source) successors(ctx context.Context, walked *proofs.KeyHistory) ([]*proofs.Verifier, error) {
	text, err := s.note(ctx, "/log/key")
	if err != nil {
		return nil, fmt.Errorf("fetching the keys of the copy: %w", err)
	}
	keys, err := proofs.ParseKeyHistory(text)
	if err != nil {
		return nil, refuse(damaged, "parsing the keys in the copy: %v", err)
	}
	known := s.trusted
	if walked != nil {
		known = slices.Concat(known, walked.VerifiersFrom(s.trusted...))
	}
	var successors []*proofs.Verifier
	for _, key := range keys.VerifiersFrom(known...) {
		successors = append(successors, key.WithoutBounds())
	}
	return successors, nil
}

// asRefusal returns a refusal if err means that the copy is damaged. Otherwise, it returns err
// itself.
func asRefusal(err error) error {
	if found := (*audit.Damage)(nil); errors.As(err, &found) {
		return refuse(damaged, "the copy is damaged: %v", found)
	}
	return err
}

// load updates the stored log to a checkpoint of the copy.
type load struct {
	*newest
	trusted  []*proofs.Verifier
	to       storage.Store
	progress func(entries uint64)
	most     int // maximum number of entries in a commit

	served  []byte             // the checkpoint that is served during the load
	stored  storage.Head       // head of the last commit
	base    proofs.Checkpoint  // checkpoint of the stored tree before the load, without an origin
	keys    *proofs.KeyHistory // keys in the events read so far; nil before the first event
	tip     storage.Hash       // event hash of the last event read so far
	time    int64              // time of the last event read so far, in microseconds since 1970 UTC
	tree    *proofs.Tree       // tree of the events read so far
	remote  *proofs.Prover     // prover of the copy's tree; nil until it is needed
	decoder event.Decoder

	next  storage.Batch
	bytes int // size of next in bytes
}

const cachedTiles = 64

func (l *load) run(ctx context.Context) error {
	err := l.read(ctx)
	if reasonOf(err) == damaged {
		err = cmp.Or(l.checkFork(ctx), err)
	}
	return err
}

func (l *load) read(ctx context.Context) (err error) {
	l.tip, l.time = l.stored.Tip, l.stored.TimeMicros
	l.tree, err = proofs.OpenTree(l.stored.Size, func(level uint8, index uint64) ([]byte, error) { return l.to.Tile(ctx, level, index) }, proofs.NewTileCache(cachedTiles))
	if err != nil {
		return fmt.Errorf("%w: reading the tree edge at size %d: %w", ledger.ErrDamaged, l.stored.Size, err)
	}
	l.base = proofs.Checkpoint{Size: l.stored.Size, Root: l.tree.Root()}
	for entry, err := range l.log.EntriesWithoutPrefetch(ctx, l.stored.Size) {
		if err != nil {
			return asRefusal(err)
		}
		if err := l.add(ctx, entry); err != nil {
			return err
		}
	}
	return l.finish(ctx)
}

// add adds an entry to the next commit. It first flushes that commit if it is full. It also does so
// if the entry redacts a record in that commit, because a commit can redact only records of earlier
// commits.
func (l *load) add(ctx context.Context, entry []byte) error {
	if len(l.next.Entries) >= l.most || l.bytes >= batchBytes {
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	seq := l.tree.Size()
	e, err := l.decoder.Decode(entry)
	if err != nil {
		return refuse(damaged, "decoding event %d of the copy: %v", seq, err)
	}
	if e.PrevHash != l.tip || e.Seq != seq {
		return refuse(damaged, "event %d of the copy does not link to the previous event", seq)
	}
	switch e.Kind {
	case record.KindLedgerCreated:
		if seq > 0 {
			return refuse(damaged, "event %d of the copy is a second ledger_created event", seq)
		}
		if l.keys, err = proofs.NewKeyHistoryFromEntry(entry); err != nil {
			return refuse(damaged, "reading the key in event 0 of the copy: %v", err)
		}
	case record.KindKeyRotated:
		if err := l.rotate(seq, &e); err != nil {
			return err
		}
	case record.KindContentRedacted:
		if err := l.redact(ctx, seq, e.Redaction()); err != nil {
			return err
		}
	}
	if key := e.ClaimedIdempotencyKey(); key != nil {
		l.next.Claims = append(l.next.Claims, storage.Claim{KeyDigest: *key, RecordDigest: record.DigestWithKind(e.Kind, e.RecordDigest()), Seq: seq})
	}
	l.next.Entries = append(l.next.Entries, bytes.Clone(entry))
	l.bytes += len(entry)
	l.tree.Append(proofs.LeafHash(entry))
	l.tip, l.time = e.Hash, e.Time.UnixMicro()
	return nil
}

func (l *load) rotate(seq uint64, e *event.Event) error {
	if l.keys == nil {
		return refuse(damaged, "event %d of the copy rotates the key of the log, but no earlier event creates the log", seq)
	}
	if err := l.keys.AddRecord(seq, e.Record); err != nil {
		return refuse(damaged, "event %d of the copy contains an invalid key rotation: %v", seq, err)
	}
	return nil
}

// redact adds the redactions of an event to the next commit. by is the seq of the event.
func (l *load) redact(ctx context.Context, by uint64, redaction event.Redaction) error {
	if redaction.Seqs == nil || redaction.Seqs.Len() > 0 && redaction.Seqs.Last() >= by {
		return refuse(damaged, "the redaction in event %d of the copy must list only earlier records", by)
	}
	if redaction.Seqs.Len() > 0 && redaction.Seqs.Last() >= l.stored.Size && len(l.next.Entries) > 0 {
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	for seq := range redaction.Seqs.All() {
		l.next.Redactions = append(l.next.Redactions, storage.Redaction{Seq: seq, RedactingSeq: by})
		l.bytes += len(storage.Hash{})
	}
	return nil
}

// finish verifies the tree and the signatures and makes the last commit.
func (l *load) finish(ctx context.Context) error {
	switch size := l.tree.Size(); {
	case size != l.checkpoint.Size:
		return refuse(damaged, "the copy ends after %d of %d events", size, l.checkpoint.Size)
	case l.tree.Root() != l.checkpoint.Root:
		return refuse(damaged, "the events of the copy do not match the root of its checkpoint at size %d", size)
	case l.keys == nil || l.keys.CurrentKey().Name() != l.checkpoint.Origin:
		return refuse(damaged, "the first event of the copy does not create the log with the origin %.100q", l.checkpoint.Origin)
	}
	if _, err := l.keys.OpenCheckpoint(l.note, l.trusted...); err != nil {
		return refuse(signature, "verifying the checkpoint of the copy: %v", err)
	}
	return l.commit(ctx, l.note)
}

// checkFork returns a refusal if the copy proves that the signed tree does not extend the stored one. It
// returns nil if the copy might only be damaged.
func (l *load) checkFork(ctx context.Context) error {
	size, root := l.base.Size, l.checkpoint.Root
	if size == 0 {
		return nil
	}
	if size < l.checkpoint.Size {
		if err := l.openRemote(ctx); err != nil {
			return nil
		}
		var err error
		if root, err = l.remote.Root(size); err != nil {
			return nil
		}
		path, err := l.remote.ConsistencyProof(size, l.checkpoint.Size)
		if err != nil || proofs.VerifyConsistency(size, l.checkpoint.Size, root, l.checkpoint.Root, path) != nil {
			return nil
		}
	}
	if root == l.base.Root {
		return nil
	}
	return refuse(fork, "the log of the copy is a fork: at size %[1]d, this server has verified the root %[2]x, but according to the checkpoint of size %[3]d, the root at size %[1]d is %[4]x; "+
		"keep both logs as evidence", size, l.base.Root, l.checkpoint.Size, root)
}

// flush commits the events read so far, after proving that they are a prefix of the log that the
// checkpoint covers.
func (l *load) flush(ctx context.Context) error {
	if err := l.prove(ctx); err != nil {
		return err
	}
	if err := l.commit(ctx, l.served); err != nil {
		return err
	}
	l.progress(l.stored.Size)
	return nil
}

// prove verifies that the checkpoint's tree extends the tree of the events read so far.
func (l *load) prove(ctx context.Context) error {
	if err := l.openRemote(ctx); err != nil {
		return err
	}
	size := l.tree.Size()
	path, err := l.remote.ConsistencyProof(size, l.checkpoint.Size)
	if err != nil {
		return fmt.Errorf("reading the tiles of the copy: %w", asRefusal(err))
	}
	if err := proofs.VerifyConsistency(size, l.checkpoint.Size, l.tree.Root(), l.checkpoint.Root, path); err != nil {
		return refuse(damaged, "the first %d events of the copy do not match its checkpoint of size %d, or its tiles are damaged: %v", size, l.checkpoint.Size, err)
	}
	return nil
}

// openRemote opens the tree of the copy. The hashes in that tree are not verified.
func (l *load) openRemote(ctx context.Context) error {
	if l.remote != nil {
		return nil
	}
	tile := func(level uint8, index uint64) ([]byte, error) { return l.log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(l.checkpoint.Size, tile, nil)
	if err != nil {
		return fmt.Errorf("reading the tiles of the copy: %w", asRefusal(err))
	}
	l.remote = proofs.NewProver(tree.Snapshot(), nil, tile)
	return nil
}

// commit commits the entries that have been read. The new head contains checkpoint, which is
// served until the next commit.
func (l *load) commit(ctx context.Context, checkpoint []byte) error {
	for _, tile := range l.tree.TakeDirtyTiles() {
		l.next.Tiles = append(l.next.Tiles, storage.Tile(tile))
	}
	l.next.Head = storage.Head{Size: l.tree.Size(), Tip: l.tip, TimeMicros: l.time, Checkpoint: checkpoint}
	if err := l.to.CheckWritable(ctx); err != nil {
		return err
	}
	if err := l.to.Commit(ctx, l.stored, l.next); err != nil {
		return err
	}
	l.stored = l.next.Head
	l.next, l.bytes = storage.Batch{}, 0
	return nil
}
