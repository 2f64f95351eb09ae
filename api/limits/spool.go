package limits

import (
	"sync/atomic"
)

// SpoolSpace limits the total size, in bytes, of the temporary files of all batches.
type SpoolSpace struct {
	Limit int64
	Taken atomic.Int64
}

// TryTake reserves n bytes if they are free, and reports whether it did. It does not wait.
func (s *SpoolSpace) TryTake(n int64) bool {
	if s.Taken.Add(n) <= s.Limit {
		return true
	}
	s.Taken.Add(-n)
	return false
}

func (s *SpoolSpace) Release(n int64) { s.Taken.Add(-n) }
