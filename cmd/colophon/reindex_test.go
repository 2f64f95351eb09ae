package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
)

func TestFoldMemory(t *testing.T) {
	const gib = 1 << 30
	for name, of := range map[string]struct {
		m    machine
		want int64
	}{
		"nothing is known":       {machine{goMemory: math.MaxInt64}, index.DefaultMemory},
		"a quarter":              {machine{memory: 2 * gib, goMemory: math.MaxInt64}, gib / 2},
		"enough is enough":       {machine{memory: 64 * gib, goMemory: math.MaxInt64}, mostFoldMemory},
		"no less than a server":  {machine{memory: gib / 2, goMemory: math.MaxInt64}, index.DefaultMemory},
		"of the control group":   {machine{memory: 64 * gib, memoryLimit: 3 * gib, goMemory: math.MaxInt64}, 3 * gib / 4},
		"of the runtime's limit": {machine{memory: 64 * gib, memoryLimit: 3 * gib, goMemory: 2 * gib}, gib / 2},
		"of what alone is known": {machine{goMemory: 2 * gib}, gib / 2},
	} {
		require.Equal(t, of.want, foldMemory(of.m), name)
	}
}
