package audit

import (
	"fmt"
	"iter"
	"slices"

	"colophon/proofs"
)

// memoryHistory is an in-memory History.
type memoryHistory struct {
	flags []EventFlags
	uses  []KeyUse
	tiles map[place][]byte
}

type place struct {
	level uint8
	index uint64
}

func newMemoryHistory() *memoryHistory { return &memoryHistory{tiles: make(map[place][]byte)} }

// AppendFlags implements History.
func (r *memoryHistory) AppendFlags(f EventFlags) error {
	r.flags = append(r.flags, f)
	return nil
}

// Flags implements History.
func (r *memoryHistory) Flags(seq uint64) (EventFlags, error) {
	if seq >= uint64(len(r.flags)) {
		return 0, fmt.Errorf("the history has no flags of event %d", seq)
	}
	return r.flags[seq], nil
}

// OrFlags implements History.
func (r *memoryHistory) OrFlags(seq uint64, flags EventFlags) error {
	if _, err := r.Flags(seq); err != nil {
		return err
	}
	r.flags[seq] |= flags
	return nil
}

// AddKeyUse implements History.
func (r *memoryHistory) AddKeyUse(u KeyUse) error {
	r.uses = append(r.uses, u)
	return nil
}

// KeyUses implements History.
func (r *memoryHistory) KeyUses() iter.Seq2[[]KeyUse, error] {
	return func(yield func([]KeyUse, error) bool) {
		for uses := range GroupKeyUses(r.uses) {
			if !yield(uses, nil) {
				return
			}
		}
	}
}

// StoreTile implements History.
func (r *memoryHistory) StoreTile(t proofs.Tile) error {
	r.tiles[place{t.Level, t.Index}] = slices.Clone(t.Hashes)
	return nil
}

// Tile implements History.
func (r *memoryHistory) Tile(level uint8, index uint64) ([]byte, error) {
	tile, kept := r.tiles[place{level, index}]
	if !kept {
		return nil, fmt.Errorf("the history has no tile %d/%d", level, index)
	}
	return tile, nil
}
