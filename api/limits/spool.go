package limits

import (
	"sync/atomic"
)

// SpoolSpace limits the total size, in bytes, of the temporary files of all batches.
type SpoolSpace struct {
	MaxBytes   int64        // largest total size of the files
	TakenBytes atomic.Int64 // number of bytes that batches have reserved
}

// TryTake reserves n bytes if they are free, and reports whether it did. It does not wait.
func (s *SpoolSpace) TryTake(n int64) bool {
	if s.TakenBytes.Add(n) <= s.MaxBytes {
		return true
	}
	s.TakenBytes.Add(-n)
	return false
}

func (s *SpoolSpace) Release(n int64) { s.TakenBytes.Add(-n) }
