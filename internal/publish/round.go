package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"colophon/internal/publish/bucket"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// position describes the copy in the bucket. The copy contains everything that checkpoint covers.
type position struct {
	size       uint64
	checkpoint object
	key        object
}

// object is the state of a mutable object when it was last read. The tag is empty if the object did
// not exist.
type object struct {
	body []byte
	tag  string
}

// Header values for the objects. They are the same as in the server's responses.
const (
	textType   = "text/plain; charset=utf-8"
	jsonType   = "application/json"
	binaryType = "application/octet-stream"

	mutable   = "no-cache"
	immutable = "max-age=31536000, immutable"
)

const (
	maxNote  = 1 << 20 // maximum size of a checkpoint or a key history, in bytes
	parallel = 4       // maximum number of objects per ledger that are written at the same time
	// span is the number of entries whose tiles the copier writes before it records its progress. It is a
	// whole number of full tiles at both level 0 and level 1.
	span = proofs.FullTileWidth * proofs.FullTileWidth
)

// round is a single update that brings the copy of a ledger up to head.
type round struct {
	*copier
	head       *ledger.Head
	conditions conditions
}

// name returns the name under which the bucket stores the object at path.
func (r *round) name(path string) string { return bucket.LogObjectName(r.ledger.Name(), path) }

func (r *round) run(ctx context.Context) error {
	if r.at == nil {
		at, err := r.read(ctx)
		if err != nil {
			return err
		}
		r.at, r.full = at, at.size
		r.setSize(at.size)
	}
	for next := r.full - r.full%span + span; next < r.head.Size; next += span {
		if err := r.writeTiles(ctx, next); err != nil {
			return err
		}
		r.full = next
	}
	if err := r.writeTiles(ctx, r.head.Size); err != nil {
		return err
	}
	r.full = r.head.Size
	return r.writeHead(ctx)
}

// read reads the position of the copy from the bucket. The error wraps errForeign if the copy is not a prefix
// of this log.
func (r *round) read(ctx context.Context) (*position, error) {
	at := new(position)
	var err error
	if at.checkpoint, err = r.get(ctx, "checkpoint"); err != nil {
		return nil, err
	}
	if at.key, err = r.get(ctx, "key"); err != nil {
		return nil, err
	}
	keys := r.ledger.KeyHistory()
	if at.key.tag != "" {
		there, err := proofs.ParseKeyHistory(at.key.body)
		switch {
		case err != nil:
			return nil, r.refuse("key", "the object does not contain the keys of a log: %w", err)
		case !keys.Contains(there.CurrentKey()):
			return nil, r.refuse("key", "the newest key, %s, is not a key of this ledger", there.CurrentKey())
		}
	}
	if at.checkpoint.tag == "" {
		return at, nil
	}
	checkpoint, err := proofs.OpenCheckpoint(at.checkpoint.body, keys.Verifiers()...)
	switch {
	case err != nil:
		return nil, r.refuse("checkpoint", "the object is not a checkpoint of this ledger: %w", err)
	case checkpoint.Size > r.head.Size:
		return nil, r.refuse("checkpoint", "the checkpoint covers %d events, but the ledger has only %d: another server publishes the same ledger to this bucket, or this server's ledger was restored from an older copy", checkpoint.Size, r.head.Size)
	}
	root, err := r.ledger.Prover(ctx, r.head).Root(checkpoint.Size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if root != checkpoint.Root {
		return nil, r.refuse("checkpoint", "at size %d the checkpoint has the root %x, but the ledger has the root %x: either the ledger was restored from an older copy and then diverged, or two servers have written to it", checkpoint.Size, checkpoint.Root, root)
	}
	at.size = checkpoint.Size
	return at, nil
}

// refuse returns an error that wraps errForeign and names the object at path.
func (r *round) refuse(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w; publish to another place, or move this copy elsewhere", errForeign, r.name(path), fmt.Errorf(format, args...))
}

// get reads a mutable object. It returns the zero object if the bucket does not have it.
func (r *round) get(ctx context.Context, path string) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	body, tag, err := r.options.Bucket.Get(ctx, r.name(path), maxNote)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return object{}, nil
	case errors.Is(err, bucket.ErrTooLarge):
		return object{}, r.refuse(path, "the object has more than %d bytes", maxNote)
	case err == nil && tag == "":
		err = errors.New("the endpoint returned the object without an ETag")
	}
	return object{body, tag}, err
}

// writeTiles writes the tiles and bundles that the bucket may lack for a tree of the given size. If
// the size is below the head's size, it skips partial tiles, because no checkpoint needs them.
func (r *round) writeTiles(ctx context.Context, size uint64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	// The bundles follow one another, so the entries are read once, from the first bundle on.
	entries, stop := iter.Pull2(r.ledger.Reader().Entries(ctx, r.full-r.full%proofs.FullTileWidth))
	defer stop()
	room := 0
	for path := range r.missing(size) {
		if ctx.Err() != nil {
			break
		}
		var bundle []byte
		var unread error
		if path.IsEntryBundle {
			bundle, unread = readBundle(path, entries, room)
			room = max(room, len(bundle))
		}
		group.Go(func() error {
			body, err := bundle, unread
			if err == nil {
				body, err = r.content(ctx, path, bundle)
			}
			if err != nil {
				return fmt.Errorf("%w: %w", errUnreadable, err)
			}
			return r.create(ctx, r.name(path.String()), body)
		})
	}
	return group.Wait()
}

// missing yields the tiles and bundles that the bucket may lack for a tree of the given size.
func (r *round) missing(size uint64) iter.Seq[proofs.TilePath] {
	return func(yield func(proofs.TilePath) bool) {
		for level := uint8(0); nodes(level, size) > 0; level++ {
			for index := nodes(level, r.full) / proofs.FullTileWidth; ; index++ {
				width := proofs.TileWidth(level, index, size)
				// Skip a partial tile if no checkpoint needs it or if the bucket already has it.
				if width == 0 || width < proofs.FullTileWidth && (size < r.head.Size || nodes(level, size) == nodes(level, r.at.size)) {
					break
				}
				path := proofs.TilePath{Level: level, Index: index, Width: width}
				if !yield(path) {
					return
				}
				if path.IsEntryBundle = true; level == 0 && !yield(path) {
					return
				}
			}
		}
	}
}

// nodes returns the total number of hashes in the tiles at a level of a tree of the given size.
func nodes(level uint8, size uint64) uint64 { return size >> (level * proofs.TileHeight) }

// readBundle reads a bundle from next, which must return the bundle's first entry. room is the expected size
// of the bundle in bytes.
func readBundle(path proofs.TilePath, next func() (storage.Entry, error, bool), room int) (bundle []byte, err error) {
	bundle = make([]byte, 0, room)
	for n := range path.Width {
		entry, err, more := next()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, fmt.Errorf("the store has only %d entries starting at entry %d", n, path.Index*proofs.FullTileWidth)
		}
		if bundle, err = proofs.AppendBundleEntry(bundle, entry.Bytes); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

// content returns the bytes of a tile, or bundle if path names a bundle. It verifies them against the signed
// tree, because a published object can never be corrected.
func (r *round) content(ctx context.Context, path proofs.TilePath, bundle []byte) ([]byte, error) {
	tile, err := r.ledger.Prover(ctx, r.head).Tile(path.Level, path.Index)
	if err != nil || !path.IsEntryBundle {
		return tile[:min(len(tile), path.Width*proofs.HashSize)], err
	}
	entries, err := proofs.ParseBundle(bundle)
	if err != nil {
		return nil, err
	}
	for i, entry := range entries {
		leaf := proofs.LeafHash(entry)
		if !bytes.Equal(leaf[:], tile[i*proofs.HashSize:][:proofs.HashSize]) {
			return nil, fmt.Errorf("entry %d does not match its leaf hash in the signed tree", path.Index*proofs.FullTileWidth+uint64(i))
		}
	}
	return bundle, nil
}

// create writes an object that never changes. If the bucket already has the object with different
// bytes, the error wraps errDifferent.
func (r *round) create(ctx context.Context, name string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	control := "public, " + immutable
	if !r.ledger.HasPublicLog() {
		control = "private, " + immutable
	}
	err := r.put(ctx, name, body, bucket.Attributes{ContentType: binaryType, CacheControl: control}, "")
	switch {
	case errors.Is(err, bucket.ErrPreconditionFailed):
		there, _, err := r.options.Bucket.Get(ctx, name, int64(len(body)))
		if errors.Is(err, bucket.ErrTooLarge) || err == nil && !bytes.Equal(there, body) {
			return fmt.Errorf("%s: %w: another program has written the object; keep it as evidence, and publish to another place", name, errDifferent)
		}
		return err
	case err != nil:
		return err
	}
	length, err := r.options.Bucket.Size(ctx, name)
	if err == nil && length != int64(len(body)) {
		err = fmt.Errorf("%s: the object in the bucket has %d bytes, but %d bytes were written", name, length, len(body))
	}
	if errors.Is(err, bucket.ErrNotFound) {
		err = fmt.Errorf("the bucket acknowledged a write, but does not have the object: %w", err)
	}
	return err
}

// put writes an object if the existing object has the given tag. An empty tag means that the
// object must not exist. If the bucket does not honour such conditions, put checks the
// existing object itself before it writes.
func (r *round) put(ctx context.Context, name string, body []byte, attributes bucket.Attributes, tag string) error {
	if tag == "" && r.conditions.absent || tag != "" && r.conditions.tag {
		return r.options.Bucket.Put(ctx, name, body, attributes, bucket.IfTag(tag))
	}
	var err error
	var holds bool
	if tag == "" {
		_, err = r.options.Bucket.Size(ctx, name)
		holds = errors.Is(err, bucket.ErrNotFound)
	} else {
		var now string
		_, now, err = r.options.Bucket.Get(ctx, name, maxNote)
		holds = err == nil && now == tag
	}
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		return err
	}
	if !holds {
		return fmt.Errorf("writing %s: %w", name, bucket.ErrPreconditionFailed)
	}
	return r.options.Bucket.Put(ctx, name, body, attributes, bucket.Condition{})
}

// writeHead writes the keys, and then the checkpoint. Everything that the checkpoint covers
// must already be in the bucket.
func (r *round) writeHead(ctx context.Context) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the server does not escape HTML either
	if err := encoder.Encode(r.ledger.KeyHistory()); err != nil {
		return err
	}
	key, err := r.replace(ctx, "key", text.Bytes(), jsonType, r.at.key)
	if err == nil {
		r.at.key = key
		r.at.checkpoint, err = r.replace(ctx, "checkpoint", r.head.Checkpoint, textType, r.at.checkpoint)
	}
	if err != nil {
		r.at = nil // the write may have taken effect; the next round reads the copy again
		return err
	}
	r.at.size = r.head.Size
	r.setSize(r.head.Size)
	return nil
}

// replace overwrites an object, reads it back, and returns its new state. before is the object's last known
// state. If before.body equals body, replace returns before and writes nothing.
func (r *round) replace(ctx context.Context, path string, body []byte, contentType string, before object) (object, error) {
	if before.tag != "" && bytes.Equal(before.body, body) {
		return before, nil
	}
	limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	err := r.put(limited, r.name(path), body, bucket.Attributes{ContentType: contentType, CacheControl: mutable}, before.tag)
	if err != nil {
		return object{}, fmt.Errorf("replacing the %s: %w", path, err)
	}
	now, err := r.get(ctx, path)
	if err == nil && !bytes.Equal(now.body, body) {
		err = fmt.Errorf("%s: the bucket acknowledged the write, but did not return the written object; another writer may have replaced the object", r.name(path))
	}
	return now, err
}
