package ledger

import (
	"slices"
	"sync"
	"time"
)

// keptCheckpoints bounds the checkpoints that a ledger which is only read remembers: it cannot sign
// those of earlier sizes again.
const keptCheckpoints = 1024

// shown is what a ledger on standby has published. Refresh and end change it under refreshing.
type shown struct {
	mu     sync.Mutex
	sizes  []uint64 // ascending; under mu
	notes  [][]byte // the checkpoints of these sizes; under mu
	marked uint64   // the size of the mark that was written last
	at     time.Time
}

// keep remembers the checkpoint of a head.
func (s *shown) keep(head *Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sizes) == keptCheckpoints {
		s.sizes, s.notes = slices.Delete(s.sizes, 0, 1), slices.Delete(s.notes, 0, 1)
	}
	s.sizes, s.notes = append(s.sizes, head.Size), append(s.notes, head.Checkpoint)
}

// checkpoint returns a remembered checkpoint, or nil.
func (s *shown) checkpoint(size uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := slices.BinarySearch(s.sizes, size); found {
		return s.notes[i]
	}
	return nil
}

// markShown stores the published head as the mark, at most once per markInterval, unless it is the
// last one. A mark that lags behind still shows a rollback to before it.
func (l *Ledger) markShown(last bool) {
	head := l.Head()
	if !l.config.MarkShown || l.config.Marks == nil || head.Size == l.shown.marked || !last && time.Since(l.shown.at) < markInterval {
		return
	}
	l.shown.at = time.Now()
	if err := l.config.Marks.SetMark(l.info.Name, head.Checkpoint); err != nil {
		l.config.Log.Error("the high-water mark of what was served could not be written, and lags behind", "error", err)
		return
	}
	l.shown.marked = head.Size
}
