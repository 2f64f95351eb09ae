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

// results pools the buffers for the results of batches.
var results = call.BufferPool{MaxBufferCap: 2 << 20}

// spool holds results of a batch that the client has not read yet. It keeps them in memory up to a
// limit, and writes further results to a temporary file. It has one writer and one reader.
type spool struct {
	spoolBounds

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond
	buffer   *call.Buffer // results to read before those in the file
	file     *os.File     // nil until the memory limit has been reached
	from, to int64        // offsets of the unread part of the file
	held     int64        // number of bytes that this spool has taken from the shared space
	err      error        // first write error; nothing is written after it, but earlier results can still be read
	finished bool         // whether the writer has finished
	broken   bool         // whether the reader has stopped
}

// spoolBounds holds the limits of a spool.
type spoolBounds struct {
	maxMemory int                // maximum number of bytes in memory before a file is used
	maxFile   int64              // maximum size of the file, in bytes
	all       *limits.SpoolSpace // space shared by the files of all spools
	dir       string             // folder in which the file is created
	room      func() error       // returns an error once the file must not grow
}

func newSpool(bounds spoolBounds) *spool {
	s := &spool{spoolBounds: bounds, buffer: results.Get()}
	s.changed.L = &s.mu
	return s
}

// spoolBounds returns the limits for the spool of one batch. room returns an error once the file
// must not grow.
func (h *Handlers) spoolBounds(room func() error) spoolBounds {
	load := h.Limiter.Limits
	return spoolBounds{maxMemory: load.SpoolBufferBytes, maxFile: int64(load.MaxBatchSpool), all: h.Limiter.SpoolSpace, dir: h.SpoolDir, room: room}
}

// write adds results to the spool without waiting for the reader. After an error, it adds nothing
// more, so that the results before the error have no gaps. drain then returns the same error.
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

// reserve ensures that at least size bytes of disk space are reserved for the file. It returns an
// error if that would exceed a limit.
func (s *spool) reserve(size int64) error {
	if size > s.maxFile {
		return limits.NewRejectedError(limits.ReasonSpool, http.StatusServiceUnavailable, 0, "%d bytes of results are unread; read results while sending lines", s.maxFile)
	}
	more := size - s.held
	if more > 0 && !s.all.TryTake(more) {
		return limits.NewRejectedError(limits.ReasonSpool, http.StatusServiceUnavailable, 0, "the unread results of all clients take up %d bytes; read results while sending lines", s.all.MaxBytes)
	}
	s.held = max(s.held, size)
	return nil
}

// finish tells the reader that nothing more will be written.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed.Signal()
}

// drain copies everything to w until the spool is finished and empty, and removes the file. It
// flushes w whenever no further results are available.
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

// next waits for results and returns them in taken, which is empty once there will be no more.
// idle reports whether no further results are available at the moment. before is a buffer whose
// results the caller has already sent; next reuses it.
func (s *spool) next(before *call.Buffer) (taken *call.Buffer, idle bool, err error) {
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

// empty releases the space of the file once all of it has been read. It is called with mu held.
func (s *spool) empty() error {
	s.all.Release(s.held)
	s.from, s.to, s.held = 0, 0, 0
	if err := s.file.Truncate(0); err != nil {
		return fmt.Errorf("emptying spooled results: %w", err)
	}
	return nil
}

// discard drops unread results and removes the file.
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
