package audit

import (
	"context"
	"errors"
	"fmt"

	"colophon/proofs"
)

// target is the log that a walk checks, up to the head that the walk found when it began.
type target struct {
	ctx        context.Context
	source     PublishedLog
	isStored   bool // whether the walk can also read data that is only in storage
	head       Head
	checkpoint proofs.Checkpoint // zero until signerCheck.open sets it
}

// path returns the path of a tile, with the width that the tile has at the head.
func (t *target) path(level uint8, index uint64) proofs.TilePath {
	return proofs.TilePath{Level: level, Index: index, Width: proofs.TileWidth(level, index, t.head.Size)}
}

// servedTile reads a tile from the source. The result contains at least needed hashes, and no
// partial hash.
func (t *target) servedTile(path proofs.TilePath, needed int) ([]byte, error) {
	tile, err := t.source.Tile(t.ctx, path.Level, path.Index)
	if err != nil {
		return nil, readDamage(err, tileDamaged(path, 0, "the tile cannot be read: %v", err))
	}
	n := len(tile)
	if n%proofs.HashSize != 0 || n > proofs.FullTileWidth*proofs.HashSize {
		return nil, tileDamaged(path, 0, "the tile has %d bytes, but a tile consists of at most %d hashes of %d bytes", n, proofs.FullTileWidth, proofs.HashSize)
	}
	if n < needed*proofs.HashSize {
		return nil, tileDamaged(path, uint64(n/proofs.HashSize), "the tile has %d hashes, but the log requires %d", n/proofs.HashSize, needed)
	}
	return tile, nil
}

// servedTiles returns a function that reads the served tiles. If the source is unavailable, that
// function stores the error in *unavailable.
func (t *target) servedTiles(unavailable *error) proofs.TileReader {
	return func(level uint8, index uint64) ([]byte, error) {
		tile, err := t.source.Tile(t.ctx, level, index)
		if errors.Is(err, ErrUnavailable) {
			*unavailable = err
		}
		return tile, err
	}
}

// prover returns a prover for the signed tree that reads the served tiles, or nil if the served
// tiles do not have the signed root.
func (t *target) prover(read proofs.TileReader) *proofs.Prover {
	tree, err := proofs.OpenTree(t.checkpoint.Size, read, nil)
	if err != nil || tree.Root() != t.checkpoint.Root {
		return nil
	}
	return proofs.NewProver(tree.Snapshot(), nil, read)
}

// isSigned reports whether the served tile at the given path belongs to the signed tree. The error
// is non-nil only if the source is unavailable.
func (t *target) isSigned(path proofs.TilePath) (signed bool, unavailable error) {
	prover := t.prover(t.servedTiles(&unavailable))
	if prover == nil {
		return false, unavailable
	}
	_, err := prover.Tile(path.Level, path.Index)
	return err == nil, unavailable
}

// servedRoot returns the root that the signed tree had at the given size. known is false if the
// served tiles do not have the signed root. The error is non-nil only if the source is unavailable.
func (t *target) servedRoot(size uint64) (root proofs.Hash, known bool, unavailable error) {
	prover := t.prover(t.servedTiles(&unavailable))
	if prover == nil {
		return proofs.Hash{}, false, unavailable
	}
	root, err := prover.Root(size)
	return root, err == nil, unavailable
}

// sizeNow returns the current number of entries. The log may have grown since the walk began.
func (t *target) sizeNow() (uint64, error) {
	now, err := t.source.Head(t.ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the head again: %w", err)
	}
	return now.Size, nil
}

func hashAt(tile []byte, slot uint64) proofs.Hash {
	return proofs.Hash(tile[slot*proofs.HashSize:])
}
