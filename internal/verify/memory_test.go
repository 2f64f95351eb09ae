package verify

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// childFile and childKey are the environment variables that pass the file and the key to
// TestVerifyChild.
const childFile, childKey = "COLOPHON_TEST_VERIFY_FILE", "COLOPHON_TEST_VERIFY_KEY"

// TestVerifyChild is not a test. It is the entry point of the child processes that
// TestMemoryIsBounded starts. It prints the error of Run and its own peak memory in KiB.
func TestVerifyChild(t *testing.T) {
	name, isChild := os.LookupEnv(childFile)
	if !isChild {
		t.Skip("runs only as a child process of TestMemoryIsBounded")
	}
	c := cli.New(strings.NewReader(""), os.Stdout, os.Stderr, func(string) (string, bool) { return "", false })
	err := Run(c, Options{File: name, Key: os.Getenv(childKey)})
	status, failed := os.ReadFile("/proc/self/status")
	require.NoError(t, failed)
	_, most, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Printf("%v\npeak memory: %s\n", err, strings.Fields(most)[0])
	os.Exit(0)
}

// An unsigned file cannot make verify use many times its own size in memory.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("the test reads and writes large files, and reads /proc")
	}
	const size, limit = 48 << 20, 512 << 10 // bytes, and KiB
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	page, err := pack.New("default", "2026-01-02T03:04:05Z", []string{}, nil).HTML()
	require.NoError(t, err)
	around := strings.Split(string(page), `"records":[]`)
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	var pieces strings.Builder
	for i := 0; pieces.Len() < size; i++ {
		fmt.Fprintf(&pieces, `"%x":"",`, i)
	}
	for name, text := range map[string]string{
		"numbers":      "[" + fill("0,") + "0]",
		"nested proof": `{"format":"colophon-nested-proof@1","x":[` + fill("0,") + "0]}",
		"record":       `{"kind":"note","record":[` + fill("0,") + "0]}",
		"members":      "{" + pieces.String() + `"x":0}`,
		"lines":        "c2sp.org/tlog-proof@v1\n" + fill("\r\n") + "\n\nx",
		"records":      around[0] + `"records":[` + fill("{},") + "{}]" + around[1],
		"inclusion":    around[0] + `"records":[{"inclusion":[` + fill(`"",`) + `""]}]` + around[1],
		"contents":     strings.Replace(string(page), `"contents":{}`, `"contents":{`+pieces.String()+`"x":""}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVerifyChild$")
			child.Env = append(os.Environ(), childFile+"="+file, childKey+"="+signer.Verifier().String())
			output, err := child.CombinedOutput()
			require.NoError(t, err, "%.2000s", output)
			says, most, found := strings.Cut(string(output), "\npeak memory: ")
			require.True(t, found)
			require.Contains(t, says, "NOT VERIFIED (malformed)")
			used, err := strconv.Atoi(strings.TrimSpace(most))
			require.NoError(t, err)
			t.Logf("%d MiB, %v: %.300s", used>>10, child.ProcessState.UserTime(), says)
			require.Less(t, used, limit)
		})
	}
}
