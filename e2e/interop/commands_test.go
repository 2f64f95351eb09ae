package interop_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// script returns the shell commands in docs/transparency-log.md.
func script(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile("../../docs/transparency-log.md")
	require.NoError(t, err)
	var commands strings.Builder
	for _, block := range shellBlock.FindAllSubmatch(document, -1) {
		commands.Write(block[1])
	}
	return commands.String()
}

// run runs commands as a reader of the document would, with LOG set to the URL of the server's log
// and KEY to key. It returns their output.
func (s *server) run(commands, key string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Dir = s.t.TempDir()
	command.Env = append(os.Environ(), "LOG="+strings.TrimSuffix(s.log().String(), "/"), "KEY="+key)
	out, err := command.CombinedOutput()
	return string(out), err
}

// The commands in docs/transparency-log.md work, including the verification of a checkpoint with
// OpenSSL.
func TestDocumentedCommands(t *testing.T) {
	wantTools(t, "bash", "curl", "openssl")
	s := start(t)
	s.grow(600)
	commands := script(t)
	out, err := s.run(commands, s.key)
	require.NoError(t, err, "%s", out)
	for _, said := range []string{"Signature Verified Successfully", "Log mirrored successfully", "Successfully fsck'd", "\n304\n"} {
		require.Contains(t, out, said)
	}
}

// The documented OpenSSL commands reject a checkpoint that was signed with a different key.
func TestOpenSSLRefusesAnotherKey(t *testing.T) {
	wantTools(t, "bash", "curl", "openssl")
	s, other := start(t), start(t)
	verify, _, _ := strings.Cut(script(t), "go run")
	out, err := s.run(verify, s.key)
	require.NoError(t, err, "%s", out)
	named, _, _ := strings.Cut(strings.TrimPrefix(s.key, s.origin()+"+"), "+")
	_, material, _ := strings.Cut(strings.TrimPrefix(other.key, other.origin()+"+"), "+")
	out, err = s.run(verify, s.origin()+"+"+named+"+"+material)
	require.Error(t, err)
	require.Contains(t, out, "Signature Verification Failure")
}
