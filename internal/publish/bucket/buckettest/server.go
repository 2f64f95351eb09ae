package buckettest

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The program of the S3 server, and the environment variable that makes a test fail, instead
// of skipping it, if the program is missing.
const (
	program         = "versitygw"
	requireVariable = "COLOPHON_REQUIRE_S3"
)

// Credentials of the S3 server.
const (
	accessKey = "colophon"
	secretKey = "colophon-test-secret" // #nosec G101 -- of a server that a test starts
)

// S3 is a real S3 server with one bucket, on a folder.
type S3 struct {
	t       testing.TB
	dir     string
	address string
	process *exec.Cmd
	stop    func() // ends the process; nil while there is none
}

// StartS3 starts versitygw, and sets the variables with its credentials. It skips the test if
// versitygw is not installed.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv(requireVariable) != "" {
			t.Fatalf("%s is missing, and %s is set: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0", program, requireVariable)
		}
		t.Skipf("there is no S3 server here: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	s := &S3{t: t, dir: t.TempDir()}
	for _, dir := range []string{"objects/bucket", "attributes"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, dir), 0o750))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	require.NoError(t, listener.Close())
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	t.Cleanup(s.Kill)
	s.Run(path)
	return s
}

// Run starts the server, and waits until it answers. path is the program's file; if it is
// empty, Run searches for the program.
func (s *S3) Run(path string) {
	s.t.Helper()
	if path == "" {
		path = program
	}
	output := new(bytes.Buffer)
	// Attributes are in a separate folder, because not every file system has extended
	// attributes.
	// #nosec G204 -- the program that a test has found
	s.process = exec.Command(path, "--port", s.address, "--access", accessKey, "--secret", secretKey, "--quiet",
		"posix", "--sidecar", filepath.Join(s.dir, "attributes"), filepath.Join(s.dir, "objects"))
	s.process.Stdout, s.process.Stderr = output, output
	require.NoError(s.t, s.process.Start())
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	for deadline := time.After(time.Minute); ; {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close()
			s.stop = func() { _ = s.process.Process.Kill(); <-ended }
			return
		}
		select {
		case err := <-ended:
			require.Fail(s.t, "the S3 server ended", "%v: %s", err, output)
		case <-deadline:
			require.Fail(s.t, "the S3 server does not answer", "%s", output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the server at once. Run starts it again with the same objects.
func (s *S3) Kill() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// URL returns the URL of the bucket with a prefix.
func (s *S3) URL(prefix string) string {
	return fmt.Sprintf("s3://bucket/%s?region=us-east-1&endpoint=%s", prefix, url.QueryEscape("http://"+s.address))
}

// Folder returns the folder with the objects of the bucket.
func (s *S3) Folder() string { return filepath.Join(s.dir, "objects", "bucket") }
