package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/storage/pebble"
)

func TestSparseBuckets(t *testing.T) {
	kept := sparse([]pebble.Bucket{
		{UpperBound: 0, Count: 0},
		{UpperBound: 100 * time.Microsecond, Count: 1},
		{UpperBound: 149 * time.Microsecond, Count: 3},
		{UpperBound: 150 * time.Microsecond, Count: 4},
		{UpperBound: 200 * time.Microsecond, Count: 8},
		{UpperBound: 10 * time.Second, Count: 9},
	})
	require.Equal(t, map[float64]uint64{0.0001: 1, 0.00015: 4, 10: 9}, kept)
}
