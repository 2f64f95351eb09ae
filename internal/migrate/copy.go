package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// Limits on each commit and on the caches while a ledger is copied.
const (
	batchEntries  = 4096     // maximum number of entries in a commit
	batchBytes    = 4 << 20  // size at which a commit is considered full, in bytes
	cachedContent = 32 << 20 // size of the cache for content that several records share, in bytes
	cachedTiles   = 64
)

// errDiverged means that the source and the target have different logs.
var errDiverged = errors.New("the two logs differ")

// errNoContent means that the source does not have content that a record needs.
var errNoContent = errors.New("the content is missing")

// copier copies one ledger, commit by commit, using only the storage interfaces. At any time, the
// target holds a prefix of the source's log. Content of records that the source has redacted is
// never copied.
type copier struct {
	ctx        context.Context
	from       storage.Reader
	to         storage.Store
	progress   func(entries uint64)
	maxEntries int // maximum number of entries in a commit
	// growing means that servers may write to the source during the copy. In that case, an event
	// after head may have erased content. erasedBy is the seq of the last such event, or 0 if there
	// is none.
	growing  bool
	erasedBy uint64

	head    storage.Head // head of the source when the copy began; the last commit stores it
	root    proofs.Hash  // the root that the head's checkpoint signs
	stored  storage.Head // head that is stored in the target
	tip     storage.Hash // event hash of the last entry read so far
	time    int64        // time of the last entry read so far, in microseconds since 1970 UTC
	tree    *proofs.Tree // tree of the entries read so far
	cache   *audit.ContentCache
	decoder event.Decoder
	earlier event.Decoder // decodes the records that an event redacts

	redactions func(seq uint64) (bool, error)

	next   storage.Batch
	keys   []storage.Hash        // idempotency keys of the events in next, ordered by seq
	seqs   []uint64              // seqs[i] is the seq of the event that has keys[i]
	pieces map[storage.Hash]bool // digests of the content in next
	bytes  int                   // size of next in bytes
}

// copyLedger copies everything that the target does not have yet. Before its last commit, it
// verifies the chain, the tree, and the signed root. The last commit stores the source's
// head, byte for byte. The heads of earlier commits have no checkpoint, so that no server
// signs anything on top of them.
func copyLedger(ctx context.Context, from storage.Reader, to storage.Store, progress func(entries uint64)) (storage.Head, error) {
	return newCopier(ctx, from, to, progress).run()
}

func newCopier(ctx context.Context, from storage.Reader, to storage.Store, progress func(entries uint64)) *copier {
	return &copier{ctx: ctx, from: from, to: to, progress: progress, maxEntries: batchEntries, cache: audit.NewContentCache(cachedContent)}
}

func (c *copier) run() (storage.Head, error) {
	if err := c.open(); err != nil {
		return storage.Head{}, err
	}
	if c.stored.Size == c.head.Size {
		if !sameHead(c.stored, c.head) {
			return storage.Head{}, fmt.Errorf("%w: both have %d entries, but their heads differ", errDiverged, c.head.Size)
		}
		return c.head, nil
	}
	stop := c.joinRedactions()
	defer stop()
	c.reset()
	for entry, err := range c.from.Entries(c.ctx, c.stored.Size) {
		if err != nil {
			return storage.Head{}, err
		}
		if entry.Seq == c.head.Size { // the source has grown since the copy began
			break
		}
		if err := c.add(entry); err != nil {
			return storage.Head{}, err
		}
	}
	return c.head, c.finish()
}

func sameHead(a, b storage.Head) bool {
	return a.Size == b.Size && a.Tip == b.Tip && a.TimeMicros == b.TimeMicros && bytes.Equal(a.Checkpoint, b.Checkpoint)
}

// open reads both heads, and checks that the target's log is a prefix of the source's log.
func (c *copier) open() (err error) {
	if c.head, err = c.from.Head(c.ctx); err != nil {
		return err
	}
	if c.stored, err = c.to.Head(c.ctx); err != nil {
		return err
	}
	if c.stored.Size > c.head.Size {
		return fmt.Errorf("%w: the source has %d entries, but the target has %d", errDiverged, c.head.Size, c.stored.Size)
	}
	if c.stored.Size > 0 {
		last, err := c.from.Entry(c.ctx, c.stored.Size-1)
		if err != nil {
			return err
		}
		if sha256.Sum256(last) != c.stored.Tip {
			return fmt.Errorf("%w: entry %d differs between the source and the target", errDiverged, c.stored.Size-1)
		}
	}
	c.tip, c.time = c.stored.Tip, c.stored.TimeMicros
	c.tree, err = proofs.OpenTree(c.stored.Size, func(level uint8, index uint64) ([]byte, error) { return c.to.Tile(c.ctx, level, index) },
		proofs.NewTileCache(cachedTiles))
	if err != nil || c.head.Size == 0 {
		return err
	}
	keys, err := ledger.ReadKeyHistory(c.ctx, c.from)
	if err != nil {
		return err
	}
	signed, err := proofs.OpenCheckpoint(c.head.Checkpoint, keys.Verifiers()...)
	if err != nil {
		return fmt.Errorf("%w: verifying the checkpoint of the source: %w", ledger.ErrDamaged, err)
	}
	if signed.Size != c.head.Size {
		return fmt.Errorf("%w: the source's checkpoint has size %d, but its head has size %d", ledger.ErrDamaged, signed.Size, c.head.Size)
	}
	c.root = signed.Root
	return nil
}

// add adds an entry to the next commit. It first flushes that commit if it is full. It also does so
// if the entry redacts a record in that commit, because a commit can redact only records of earlier
// commits.
func (c *copier) add(entry storage.Entry) error {
	seq := c.stored.Size + uint64(len(c.next.Entries))
	if entry.Seq != seq {
		return fmt.Errorf("%w: the source yields entry %d instead of entry %d", storage.ErrDamaged, entry.Seq, seq)
	}
	if len(c.next.Entries) == c.maxEntries || c.bytes >= batchBytes {
		if err := c.flush(nil); err != nil {
			return err
		}
	}
	e, err := c.decoder.Decode(entry.Bytes)
	if err != nil {
		return fmt.Errorf("%w: decoding event %d: %w", ledger.ErrDamaged, seq, err)
	}
	if e.PrevHash != c.tip || e.Seq != seq {
		return fmt.Errorf("%w: entry %d does not link to the previous entry", ledger.ErrDamaged, seq)
	}
	if e.Kind == record.KindContentRedacted {
		if err := c.redact(seq, e.Redaction()); err != nil {
			return err
		}
	}
	if err := c.contents(&e); err != nil {
		return err
	}
	if key := e.IdempotencyKey(); key != nil {
		c.keys, c.seqs = append(c.keys, *key), append(c.seqs, seq)
	}
	c.next.Entries = append(c.next.Entries, bytes.Clone(entry.Bytes))
	c.bytes += len(entry.Bytes)
	c.tree.Append(proofs.LeafHash(entry.Bytes))
	c.tip, c.time = e.Hash, e.Time.UnixMicro()
	return nil
}

// redact adds the redactions that an event makes. An earlier run may have copied the records before
// they were redacted, so each redaction lists the digests of the content to erase.
func (c *copier) redact(by uint64, redaction event.Redaction) error {
	if redaction.Seqs == nil {
		return fmt.Errorf("%w: event %d does not name the records that it redacts", ledger.ErrDamaged, by)
	}
	if redaction.Seqs.Len() > 0 && redaction.Seqs.Last() >= c.stored.Size && len(c.next.Entries) > 0 {
		if err := c.flush(nil); err != nil {
			return err
		}
	}
	for seq := range redaction.Seqs.All() {
		entry, err := c.to.Entry(c.ctx, seq)
		if err != nil {
			return fmt.Errorf("reading entry %d, which event %d redacts: %w", seq, by, err)
		}
		e, err := c.earlier.Decode(entry)
		if err != nil {
			return fmt.Errorf("%w: decoding event %d: %w", ledger.ErrDamaged, seq, err)
		}
		r := storage.Redaction{Seq: seq, RedactingSeq: by}
		for piece := range e.Contents() {
			r.Digests = append(r.Digests, piece.Digest)
		}
		c.next.Redactions = append(c.next.Redactions, r)
		c.bytes += (1 + len(r.Digests)) * len(storage.Hash{})
	}
	return nil
}

// contents adds the content that a record names, unless the record is redacted.
func (c *copier) contents(e *event.Event) error {
	redacted, err := c.redactions(e.Seq)
	if err != nil || redacted {
		return err
	}
	slot := uint16(0)
	for named := range e.Contents() {
		piece, err := c.content(named.Digest)
		if errors.Is(err, errNoContent) && c.growing {
			by, missing := c.from.RedactingSeq(c.ctx, e.Seq)
			if missing == nil && by >= c.head.Size {
				c.erasedBy = max(c.erasedBy, by)
				return nil
			}
		}
		switch {
		case err != nil:
			return fmt.Errorf("reading content %q of event %d: %w", named.Name, e.Seq, err)
		case uint64(len(piece)) != named.Size:
			return fmt.Errorf("%w: content %q of event %d has %d bytes, but the event states %d", storage.ErrDamaged, named.Name, e.Seq, len(piece), named.Size)
		}
		c.next.Contents = append(c.next.Contents, storage.Content{Digest: named.Digest, Seq: e.Seq, Slot: slot, Bytes: piece})
		slot++
		if !c.pieces[named.Digest] {
			c.pieces[named.Digest] = true
			c.bytes += len(piece)
		}
	}
	return nil
}

// content returns a piece of content from the source after checking its digest.
func (c *copier) content(digest storage.Hash) ([]byte, error) {
	if piece, cached := c.cache.Get(digest); cached {
		return piece, nil
	}
	piece, err := c.from.Content(c.ctx, digest)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", storage.ErrDamaged, errNoContent)
	}
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(piece) != digest {
		return nil, fmt.Errorf("%w: the content does not match its digest %x", storage.ErrDamaged, digest)
	}
	c.cache.Put(digest, piece)
	return piece, nil
}

// finish makes the last commit, after checking that the copied log ends in the source's head and
// has the signed root.
func (c *copier) finish() error {
	if size := c.tree.Size(); size != c.head.Size {
		return fmt.Errorf("%w: the source ends after %d of %d entries", storage.ErrDamaged, size, c.head.Size)
	}
	if c.tip != c.head.Tip || c.time != c.head.TimeMicros {
		return fmt.Errorf("%w: the last entry of the source (written at %s) does not match the source's head", ledger.ErrDamaged, time.UnixMicro(c.time).UTC())
	}
	if root := c.tree.Root(); root != c.root {
		return fmt.Errorf("%w: the tree of the source's entries has the root %x, but the source's checkpoint has the root %x", ledger.ErrDamaged, root, c.root)
	}
	return c.flush(c.head.Checkpoint)
}

// flush commits the entries and content that have been gathered. checkpoint is nil for every commit
// but the last.
func (c *copier) flush(checkpoint []byte) error {
	claims, err := c.from.KeyClaims(c.ctx, c.keys)
	if err != nil {
		return err
	}
	claimed := make(map[storage.Hash]storage.Claim, len(claims))
	for _, claim := range claims {
		claimed[claim.KeyDigest] = claim
	}
	for i, key := range c.keys {
		if claim, is := claimed[key]; is && claim.Seq == c.seqs[i] { // a refusal can have a key but does not claim it
			c.next.Claims = append(c.next.Claims, claim)
		}
	}
	for _, tile := range c.tree.TakeDirtyTiles() {
		c.next.Tiles = append(c.next.Tiles, storage.Tile(tile))
	}
	c.next.Head = storage.Head{Size: c.tree.Size(), Tip: c.tip, TimeMicros: c.time, Checkpoint: checkpoint}
	if err := c.to.CheckWritable(c.ctx); err != nil {
		return err
	}
	if err := c.to.Commit(c.ctx, c.stored, c.next); err != nil {
		return err
	}
	c.stored = c.next.Head
	c.reset()
	c.progress(c.stored.Size)
	return nil
}

// reset empties the next commit.
func (c *copier) reset() {
	c.next = storage.Batch{}
	c.keys, c.seqs, c.bytes = c.keys[:0], c.seqs[:0], 0
	c.pieces = make(map[storage.Hash]bool)
}
