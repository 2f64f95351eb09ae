package batch

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"

	"colophon/api/call"
	"colophon/api/limits"
)

// results has the buffers for the results of batches.
var results = call.ReplyPool{MaxKept: 2 << 20}

// spool holds results for a client that is not reading yet: in memory up to a
// bound, beyond it in a temporary file. It has one writer and one reader.
type spool struct {
	spoolBounds

	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	buffer   *call.Reply // comes before what is in the file
	file     *os.File    // nil until memory has been full
	from, to int64       // the unread part of the file
	held     int64       // of the space for all files
	err      error       // why nothing more can be written; what came before can be read
	finished bool        // nothing more will be written
	broken   bool        // nothing more will be read
}

// spoolBounds is how much a spool may hold.
type spoolBounds struct {
	maxMemory int                // bytes, before there is a file
	maxFile   int64              // bytes of the file
	all       *limits.SpoolSpace // of which the file's are part
	dir       string             // of the file
	room      func() error       // nil while the file may grow
}

func newSpool(bounds spoolBounds) *spool {
	s := &spool{spoolBounds: bounds, buffer: results.Get()}
	s.changed.L = &s.mu
	return s
}

// spoolBounds bounds the spool of one batch. room returns nil while the disk has space.
func (h *Handlers) spoolBounds(room func() error) spoolBounds {
	load := h.Limits.Load
	return spoolBounds{maxMemory: load.SpoolMemory, maxFile: int64(load.BatchSpool), all: h.Limits.Spools, dir: h.SpoolDir, room: room}
}

// write never waits for the reader. After an error nothing more is taken, so
// that results are missing at the end only, and drain returns that error.
func (s *spool) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changed.Signal()
	if s.err != nil || s.broken {
		return s.err
	}
	if s.from == s.to && len(s.buffer.Text)+len(b) <= s.maxMemory {
		s.buffer.Text = append(s.buffer.Text, b...)
		return nil
	}
	if s.err = s.writeFile(b); s.err != nil {
		s.finished = true
	}
	return s.err
}

func (s *spool) writeFile(b []byte) error {
	if err := s.room(); err != nil {
		return fmt.Errorf("spooling results: %w", err)
	}
	if err := s.reserve(s.to + int64(len(b))); err != nil {
		return err
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "colophon-batch-*")
		if err != nil {
			return fmt.Errorf("spooling results: %w", err)
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(b, s.to); err != nil {
		return fmt.Errorf("spooling results: %w", err)
	}
	s.to += int64(len(b))
	return nil
}

// reserve reserves n bytes of space for a file.
func (s *spool) reserve(size int64) error {
	if size > s.maxFile {
		return limits.Refuse(limits.RefusedSpool, http.StatusServiceUnavailable, 0, "the client has not read %d bytes of results", s.maxFile)
	}
	more := size - s.held
	if more > 0 && !s.all.Take(more) {
		return limits.Refuse(limits.RefusedSpool, http.StatusServiceUnavailable, 0, "clients have not read %d bytes of results", s.all.Limit)
	}
	s.held = max(s.held, size)
	return nil
}

// finish says that nothing more will be written.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed.Signal()
}

// drain copies everything to w until the spool is finished and empty, flushing
// when there is nothing more at hand, and removes the file.
func (s *spool) drain(w io.Writer, flush func() error) (err error) {
	taken := results.Get()
	defer func() {
		taken.Release()
		err = errors.Join(err, s.discard())
	}()
	for {
		idle := false
		if taken, idle, err = s.next(taken); err != nil || len(taken.Text) == 0 {
			return err
		}
		if _, err := w.Write(taken.Text); err != nil {
			return err
		}
		if idle {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// next waits for something to read; nothing when there will be nothing more. idle
// says that nothing is left for now. The buffer of what was read before is used again.
func (s *spool) next(before *call.Reply) (taken *call.Reply, idle bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken = before
	taken.Text = taken.Text[:0]
	for len(s.buffer.Text) == 0 && s.from == s.to && !s.finished {
		s.changed.Wait()
	}
	switch {
	case len(s.buffer.Text) > 0:
		taken, s.buffer = s.buffer, taken
	case s.from < s.to:
		size := int(min(int64(s.maxMemory), s.to-s.from))
		taken.Text = slices.Grow(taken.Text, size)[:size]
		if _, err := s.file.ReadAt(taken.Text, s.from); err != nil {
			return taken, false, fmt.Errorf("reading spooled results: %w", err)
		}
		if s.from += int64(size); s.from == s.to {
			if err := s.empty(); err != nil {
				return taken, false, err
			}
		}
	default:
		return taken, true, s.err
	}
	return taken, len(s.buffer.Text) == 0 && s.from == s.to, nil
}

// empty gives back the space of a file that has been read; the caller holds mu.
func (s *spool) empty() error {
	s.all.Release(s.held)
	s.from, s.to, s.held = 0, 0, 0
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("emptying spooled results: %w", err)
	}
	return nil
}

// discard drops what was not read.
func (s *spool) discard() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer.Release()
	s.broken, s.buffer = true, nil
	s.all.Release(s.held)
	s.held = 0
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
