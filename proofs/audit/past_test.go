package audit

import (
	"fmt"
	"iter"
	"slices"

	"colophon/proofs"
)

// memoryPast is a Past in memory.
type memoryPast struct {
	facts []Facts
	uses  []KeyUse
	tiles map[place][]byte
}

type place struct {
	level uint8
	index uint64
}

func newMemoryPast() *memoryPast { return &memoryPast{tiles: make(map[place][]byte)} }

// Add implements Past.
func (r *memoryPast) Add(f Facts) error {
	r.facts = append(r.facts, f)
	return nil
}

// Facts implements Past.
func (r *memoryPast) Facts(seq uint64) (Facts, error) {
	if seq >= uint64(len(r.facts)) {
		return 0, fmt.Errorf("the past has no facts about event %d", seq)
	}
	return r.facts[seq], nil
}

// Mark implements Past.
func (r *memoryPast) Mark(seq uint64, flags Facts) error {
	if _, err := r.Facts(seq); err != nil {
		return err
	}
	r.facts[seq] |= flags
	return nil
}

// Use implements Past.
func (r *memoryPast) Use(u KeyUse) error {
	r.uses = append(r.uses, u)
	return nil
}

// Uses implements Past.
func (r *memoryPast) Uses() iter.Seq2[[]KeyUse, error] {
	return func(yield func([]KeyUse, error) bool) {
		for uses := range ByKey(r.uses) {
			if !yield(uses, nil) {
				return
			}
		}
	}
}

// Keep implements Past.
func (r *memoryPast) Keep(t proofs.TileData) error {
	r.tiles[place{t.Level, t.Index}] = slices.Clone(t.Hashes)
	return nil
}

// Tile implements Past.
func (r *memoryPast) Tile(level uint8, index uint64) ([]byte, error) {
	tile, kept := r.tiles[place{level, index}]
	if !kept {
		return nil, fmt.Errorf("the past has no tile %d/%d", level, index)
	}
	return tile, nil
}
