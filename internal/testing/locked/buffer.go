// Package locked provides a buffer that a test can read while other goroutines write to it.
package locked

import (
	"strings"
	"sync"
)

// Buffer collects text, for example a log or the output of a process. The zero value is empty. It
// is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns everything that has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
