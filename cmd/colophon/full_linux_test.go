package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/testing/locked"
	"colophon/ledger"
)

// smallDisk mounts a file system with a capacity of the given number of bytes and returns its path.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		t.Skipf("needs root to mount a file system for the test: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// ballast fills the disk until exactly left bytes are free. The returned function removes the
// ballast.
func ballast(t *testing.T, dir string, left int64) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	var usage unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &usage))
	_, err = io.CopyN(f, zeros{}, int64(usage.Bavail)*int64(usage.Bsize)-left)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, unix.Statfs(dir, &usage))
	require.EqualValues(t, left, int64(usage.Bavail)*int64(usage.Bsize))
	return func() { require.NoError(t, os.Remove(path)) }
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// served is a server that runs on a data folder, either in this process or in a process of its own.
type served struct {
	*testing.T
	url    string
	output *locked.Buffer
	stop   func() int // stops the server and returns its exit code
}

func startFull(t *testing.T, data string, args ...string) *served {
	t.Helper()
	s := &served{T: t, output: new(locked.Buffer)}
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	args = append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--index-wait", "100ms", "--min-free-space", "32MiB"}, args...)
	go func() {
		code <- run(ctx, args, strings.NewReader(""), s.output, s.output, func(string) (string, bool) { return "", false })
	}()
	s.stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { s.stop() })
	require.Eventually(t, func() bool { return serverURLPattern.MatchString(s.output.String()) || len(code) > 0 }, time.Minute, 10*time.Millisecond)
	found := serverURLPattern.FindStringSubmatch(s.output.String())
	require.NotNil(t, found, "%s", s.output)
	s.url = found[1]
	return s
}

// ask sends a request and returns the status and the body of the response.
func (s *served) ask(method, path, body string) (status int, answer string) {
	s.Helper()
	status, answer, err := s.try(method, path, body)
	require.NoError(s, err)
	return status, answer
}

// try is like ask but returns an error if the server closes the connection.
func (s *served) try(method, path, body string) (status int, answer string, err error) {
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if body != "" {
		r.Header.Set("Content-Type", contentType(path))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

func contentType(path string) string {
	if strings.HasSuffix(path, "/batch") {
		return "application/x-ndjson"
	}
	return "application/json"
}

const (
	ledgerURL = "/v1/ledgers/default"
	oneRecord = `{"payload":{},"output":"x","model":"m","temperature":0,"max_tokens":1}`
)

// A server on a full disk starts, answers reads, and refuses writes. It accepts writes again once
// space is free.
func TestServersStartOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		left    int64
		index   func(s *stored)
		queries int // expected status of a query while the disk is full
	}{
		{"a little room", 8 << 20, func(s *stored) { s.colophon(cli.ExitOK, "reindex", "--data", s.data) }, http.StatusOK},
		{"no room at all", 0, func(s *stored) { s.colophon(cli.ExitOK, "reindex", "--data", s.data) }, http.StatusOK},
		{"no room, and the index is behind", 0, func(s *stored) { s.colophon(cli.ExitOK, "reindex", "--data", s.data); s.post(3) }, http.StatusOK},
		{"no room, and no index", 0, func(*stored) {}, http.StatusServiceUnavailable},
		{"no room, and an index of another layout", 0, func(s *stored) {
			s.colophon(cli.ExitOK, "reindex", "--data", s.data)
			require.NoError(s, os.WriteFile(filepath.Join(datadir.IndexFolder(s.data), "LAYOUT"), []byte("another\n"), 0o600))
		}, http.StatusServiceUnavailable},
		{"no room, and a damaged index", 0, func(s *stored) {
			s.colophon(cli.ExitOK, "reindex", "--data", s.data)
			manifests, err := filepath.Glob(filepath.Join(datadir.IndexFolder(s.data), "MANIFEST-*"))
			require.NoError(s, err)
			require.NotEmpty(s, manifests)
			for _, path := range manifests {
				require.NoError(s, os.WriteFile(path, []byte("damaged"), 0o600))
			}
		}, http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := smallDisk(t, 96<<20)
			s := &stored{T: t, data: filepath.Join(disk, "data")}
			s.post(20)
			c.index(s)
			size := 1 + s.posted
			free := ballast(t, disk, c.left)

			server := startFull(t, s.data)
			status, text := server.ask(http.MethodGet, ledgerURL+"/log/checkpoint", "")
			require.Equal(t, http.StatusOK, status, text)
			require.Contains(t, text, fmt.Sprintf("\n%d\n", size), "records that only the write-ahead log contains must be served")
			for seq := 1; seq < size; seq++ {
				status, text = server.ask(http.MethodGet, fmt.Sprintf("%s/records/%d/content/output", ledgerURL, seq), "")
				require.Equal(t, http.StatusOK, status, text)
			}
			status, text = server.ask(http.MethodGet, ledgerURL+"/records/2/receipt", "")
			require.Equal(t, http.StatusOK, status, text)
			status, text = server.ask(http.MethodGet, ledgerURL+"/records", "")
			require.Equal(t, c.queries, status, text)
			status, text = server.ask(http.MethodGet, "/metrics", "")
			require.Equal(t, http.StatusOK, status, text)
			for _, write := range []struct{ path, body string }{
				{ledgerURL + "/ipc-records", oneRecord}, {ledgerURL + "/batch", `{"kind":"ipc_record","record":` + oneRecord + "}\n"}, {"/v1/ledgers", `{"name":"another"}`}, {ledgerURL + "/freeze", ""},
				{ledgerURL + "/keys", `{"step":"rotate"}`}, {"/v1/snapshots", ""}, {ledgerURL + "/redactions", fmt.Sprintf(`{"seqs":[2],"reason":"r","dry_run":false,"as_of":%d}`, size)},
				{ledgerURL + "/records/2/state", `{"state":"stale","reason":"r"}`},
			} {
				status, text = server.ask(http.MethodPost, write.path, write.body)
				if write.path == "/v1/snapshots" {
					require.GreaterOrEqual(t, status, 400, "%s: %s", write.path, text)
					continue
				}
				if !strings.HasSuffix(write.path, "/batch") { // a batch reports the status for each line
					require.Equal(t, http.StatusServiceUnavailable, status, "%s: %s", write.path, text)
				}
				require.Contains(t, text, "the server is short of disk space; nothing was written; try again when there is room", write.path)
			}
			status, text = server.ask(http.MethodGet, "/readyz", "")
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			require.Contains(t, server.output.String(), "the disk is full; the database is read-only until there is free space")

			free()
			require.Eventually(t, func() bool {
				status, _, _ := server.try(http.MethodPost, ledgerURL+"/ipc-records", oneRecord)
				return status == http.StatusCreated
			}, time.Minute, 50*time.Millisecond, "%s", server.output)
			status, text = server.ask(http.MethodGet, fmt.Sprintf("%s/records/%d/receipt", ledgerURL, size), "")
			require.Equal(t, http.StatusOK, status, text)
			require.Eventually(t, func() bool {
				status, _, _ := server.try(http.MethodGet, fmt.Sprintf("%s/records?after=%d", ledgerURL, size), "")
				return status == http.StatusOK
			}, time.Minute, 50*time.Millisecond, "%s", server.output)
			require.Equal(t, cli.ExitOK, server.stop(), "%s", server.output)
			require.Equal(t, 1, strings.Count(server.output.String(), "is ready."))
			s.colophon(cli.ExitOK, "fsck", "--data", s.data)
		})
	}
}

// On a full disk, many tokens can be revoked one after another, but no token can be created.
func TestTokensCanBeRevokedOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 96<<20)
	s := &stored{T: t, data: filepath.Join(disk, "data")}
	s.post(1)
	const tokens = 150 // revoking this many makes the token file grow by several blocks
	var texts [tokens]string
	for i := range texts {
		texts[i] = s.token(s.data, fmt.Sprint("t", i))
	}
	reserve := filepath.Join(datadir.TokenFolder(s.data), access.DiskReserveFileName)
	require.FileExists(t, reserve)
	free := ballast(t, disk, 0)
	server := startFull(t, s.data)
	status := func(token string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+ledgerURL, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	create := []string{"token", "create", "--data", s.data, "--name", "new", "--scope", "read"}
	for i, token := range texts[:tokens-1] {
		asked := i%50 == 0
		if asked {
			require.Equal(t, http.StatusOK, status(token))
			require.Contains(t, s.colophon(cli.ExitFailed, create...), "no space left on device; free up space on")
		}
		s.colophon(cli.ExitOK, "token", "revoke", "--data", s.data, fmt.Sprint("t", i))
		if asked {
			require.Equal(t, http.StatusUnauthorized, status(token))
		}
	}
	require.Equal(t, http.StatusOK, status(texts[tokens-1]))

	require.NoError(t, os.Remove(reserve))
	fill, err := os.Create(filepath.Join(disk, "fill"))
	require.NoError(t, err)
	_, err = io.Copy(fill, zeros{})
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, fill.Close())
	require.Contains(t, s.colophon(cli.ExitFailed, "token", "revoke", "--data", s.data, fmt.Sprint("t", tokens-1)), "no space left on device; free up space on")
	require.Equal(t, http.StatusOK, status(texts[tokens-1]), "a revocation that fails must change nothing")
	free()
	s.colophon(cli.ExitOK, create...)
	require.FileExists(t, reserve)
	require.NoError(t, os.Remove(reserve))
	require.Equal(t, cli.ExitOK, server.stop(), "%s", server.output)
	require.FileExists(t, reserve, "the server must create the reserve too")
}

// If the data folder contains no ledger and the disk is full, serve fails and creates nothing.
func TestNoFirstStartOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 96<<20)
	free := ballast(t, disk, 1<<20)
	s := &stored{T: t, data: filepath.Join(disk, "data")}
	require.Contains(t, s.colophon(cli.ExitFailed, "serve", "--data", s.data, "--listen", "127.0.0.1:0"), "Free space on the file system")
	require.NoDirExists(t, s.data)
	free()
	s.post(1)
	require.FileExists(t, datadir.KeyFiles(s.data).Path(ledger.DefaultName))
}

// On a read-only file system, serve fails and says what to do.
func TestServersRefuseAReadOnlyDisk(t *testing.T) {
	disk := smallDisk(t, 96<<20)
	s := &stored{T: t, data: filepath.Join(disk, "data")}
	s.post(1)
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	require.Contains(t, s.colophon(cli.ExitFailed, "serve", "--data", s.data, "--listen", "127.0.0.1:0"), "is read-only: mount it for writing")
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, ""))
	s.colophon(cli.ExitOK, "fsck", "--data", s.data)
}

// If the disk fills during a backup, the backup reports that it is incomplete. If the disk fills
// during a restore, the restore leaves no files behind. Once space is free, a new attempt succeeds.
func TestBackupsAndRestoresOnAFullDisk(t *testing.T) {
	s := newStored(t)
	s.post(400)
	disk := smallDisk(t, 96<<20)
	s.backups = filepath.Join(disk, "backups")
	free := ballast(t, disk, 64<<10)
	output := s.colophon(cli.ExitFailed, "backup", "--data", s.data, "--to", s.backups)
	require.Contains(t, output, "The backup is incomplete and cannot be restored. Free some space in "+s.backups)
	require.Empty(t, s.manifests())
	require.NoDirExists(t, datadir.SnapshotFolderOf(s.data).DatabasePath(), "no copy may be left behind")
	free()
	s.backup()
	require.FileExists(t, filepath.Join(s.backups, s.manifests()[0].Name()+".json"))

	free = ballast(t, disk, 64<<10)
	data := filepath.Join(disk, "restored")
	args := []string{"restore", "--from", s.backups, "--data", data, "--newest", "--key", s.key()}
	require.Contains(t, s.colophon(cli.ExitFailed, args...), "Nothing was restored. Free space on the file system of "+data)
	require.NoDirExists(t, data)
	free()
	s.colophon(cli.ExitOK, args...)
	s.restore()
}

// If the disk fills during an erasure, no record is lost, and the erasure completes once space is
// free.
func TestErasingOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 160<<20)
	s := &stored{T: t, data: filepath.Join(disk, "data")}
	args := []string{"--min-free-space", "1KiB", "--index-wait", "100ms"} // so low that the disk fills up before the server rejects writes
	secret := fmt.Sprintf("%x", sha256.Sum256([]byte("a text that does not compress")))
	p := startProcess(t, s.data, args...)
	require.True(t, p.up, "%s", p.output)
	server := &served{T: t, url: p.url, output: p.output}
	post := func(text string) int {
		status, _ := server.ask(http.MethodPost, ledgerURL+"/ipc-records",
			fmt.Sprintf(`{"payload":{},"output":%q,"model":"m","temperature":0,"max_tokens":1}`, text))
		return status
	}
	require.Equal(t, http.StatusCreated, post(secret))
	const records = 800
	for i := range records {
		require.Equal(t, http.StatusCreated, post(fmt.Sprintf("%d %s", i, strings.Repeat(fmt.Sprint(i*7919), 150))))
	}
	free := ballast(t, disk, 64<<10)
	status, text := server.ask(http.MethodDelete, ledgerURL+"/records/1/content", `{"reason":"asked"}`)
	require.Less(t, status, 300, text)
	require.Eventually(t, func() bool {
		return p.gone() || strings.Contains(p.output.String(), "no space left on device")
	}, time.Minute, 10*time.Millisecond, "the server must notice that the disk is full")
	require.True(t, holds(t, s.data, secret), "the disk must be full before the text has been erased")
	free()
	if p.gone() { // a failed write to the log ends the process, so restart it
		p = startProcess(t, s.data, args...)
		require.True(t, p.up, "%s", p.output)
		server.url = p.url
	}
	require.Eventually(t, func() bool { return !holds(t, s.data, secret) }, 3*time.Minute, 100*time.Millisecond, "%s", p.output)
	status, text = server.ask(http.MethodGet, ledgerURL+"/log/checkpoint", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, fmt.Sprintf("\n%d\n", 1+1+records+1))
	require.Equal(t, http.StatusCreated, post("after"))
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, cli.ExitOK, p.wait(), "%s", p.output)
	require.Contains(t, s.colophon(cli.ExitOK, "fsck", "--data", s.data), "2 redacted pieces")
}

// holds reports whether any file in a folder contains the given text.
func holds(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // ignore err: the storage engine might have just removed the file
		}
		content, err := os.ReadFile(path)
		found = found || err == nil && strings.Contains(string(content), text)
		return nil
	}))
	return found
}
