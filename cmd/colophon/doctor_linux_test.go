package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSoftLimit(t *testing.T) {
	const limits = `Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max open files            1024                 524288               files
`
	require.Equal(t, uint64(1024), softLimit(limits, "Max open files"))
	require.Equal(t, uint64(math.MaxUint64), softLimit(limits, "Max cpu time"))
	require.Zero(t, softLimit(limits, "Max locked memory"))
}

func TestGroupMemoryIsTheLeastOnTheWayUp(t *testing.T) {
	mount := t.TempDir()
	group := filepath.Join(mount, "system.slice", "colophon.service")
	require.NoError(t, os.MkdirAll(group, 0o700))
	groups := "9:name=systemd:/\n0::/system.slice/colophon.service\n"
	require.Zero(t, groupMemory(mount, groups))
	limit := func(dir, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte(text), 0o600))
	}
	limit(group, "max\n")
	require.Zero(t, groupMemory(mount, groups))
	limit(filepath.Dir(group), "1073741824\n")
	require.Equal(t, uint64(1<<30), groupMemory(mount, groups))
	limit(group, "536870912\n")
	require.Equal(t, uint64(512<<20), groupMemory(mount, groups))
	require.Zero(t, groupMemory(mount, "4:memory:/x\n"))
}

func TestLookAtMachineKnowsThisOne(t *testing.T) {
	m := lookAtMachine(os.Getpid())
	require.NotNil(t, m.process)
	require.NotZero(t, m.memory)
	require.NotZero(t, m.openFiles)
	require.NotZero(t, m.goMemory)
	require.Equal(t, os.Args, m.process.arguments)
	require.Equal(t, os.Getuid(), *m.process.user)
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, dir, m.process.dir)
	require.Nil(t, lookAtMachine(0).process)
}
