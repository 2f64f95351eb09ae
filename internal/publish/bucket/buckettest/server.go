package buckettest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is a storage server that tests run.
type program struct {
	name    string
	require string // environment variable that makes tests fail, rather than be skipped, if the program is missing
	install string
}

var (
	versitygw = program{"versitygw", "COLOPHON_REQUIRE_S3", "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"}
	fakeGCS   = program{"fake-gcs-server", "COLOPHON_REQUIRE_GCS", "go install github.com/fsouza/fake-gcs-server@v1.56.1"}
	azurite   = program{"azurite-blob", "COLOPHON_REQUIRE_AZURITE", "npm install -g --ignore-scripts azurite@3.37.0"}
)

// server runs a storage server program for one test.
type server struct {
	t       testing.TB
	program program
	args    []string
	dir     string
	address string
	stop    func() // stops the process; nil while it is not running
}

// start returns a server with a free address. It does not run the server; Start does. It skips
// the test if the program is not installed.
func start(t testing.TB, p program) *server {
	t.Helper()
	if _, err := exec.LookPath(p.name); err != nil {
		if os.Getenv(p.require) != "" {
			t.Fatalf("%s is not installed, but %s is set; to install it, run: %s", p.name, p.require, p.install)
		}
		t.Skipf("%s is not installed; to install it, run: %s", p.name, p.install)
	}
	s := &server{t: t, program: p, dir: t.TempDir()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	require.NoError(t, listener.Close())
	t.Cleanup(s.Kill)
	return s
}

func (s *server) port() string {
	_, port, err := net.SplitHostPort(s.address)
	require.NoError(s.t, err)
	return port
}

// Start starts the server, and waits until it accepts connections.
func (s *server) Start() {
	s.t.Helper()
	output := new(bytes.Buffer)
	process := exec.Command(s.program.name, s.args...) // #nosec G204 -- the program that a test has found
	process.Stdout, process.Stderr = output, output
	require.NoError(s.t, process.Start())
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	for deadline := time.After(time.Minute); ; {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close()
			s.stop = func() { _ = process.Process.Kill(); <-ended }
			return
		}
		select {
		case err := <-ended:
			require.Fail(s.t, s.program.name+" stopped", "%v: %s", err, output)
		case <-deadline:
			_ = process.Process.Kill()
			<-ended
			require.Fail(s.t, s.program.name+" does not respond", "%s", output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill stops the server immediately. Start can start it again.
func (s *server) Kill() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Credentials of the S3 server.
const (
	accessKey = "colophon"
	secretKey = "colophon-test-secret" // #nosec G101 -- of a server that a test starts
)

// S3 is a real S3 server with one bucket, which stores its objects as files in a folder.
type S3 struct{ *server }

// StartS3 starts versitygw, and sets the environment variables that hold its credentials. It skips
// the test if versitygw is not installed.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	s := &S3{start(t, versitygw)}
	for _, dir := range []string{"objects/bucket", "attributes"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, dir), 0o750))
	}
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	// Attributes are stored in a sidecar folder, because not every file system has extended attributes.
	s.args = []string{"--port", s.address, "--access", accessKey, "--secret", secretKey, "--quiet",
		"posix", "--sidecar", filepath.Join(s.dir, "attributes"), filepath.Join(s.dir, "objects")}
	s.Start()
	return s
}

// URL returns the URL of the bucket with the given prefix.
func (s *S3) URL(prefix string) string {
	return fmt.Sprintf("s3://bucket/%s?region=us-east-1&endpoint=%s", prefix, url.QueryEscape("http://"+s.address))
}

// ObjectFolder returns the folder that contains the bucket's objects.
func (s *S3) ObjectFolder() string { return filepath.Join(s.dir, "objects", "bucket") }

// GCS is an in-memory emulator of Google Cloud Storage with one bucket.
type GCS struct{ *server }

// StartGCS starts fake-gcs-server. It skips the test if fake-gcs-server is not installed.
func StartGCS(t testing.TB) *GCS {
	t.Helper()
	s := &GCS{start(t, fakeGCS)}
	s.args = []string{"-scheme", "http", "-host", "127.0.0.1", "-port", s.port(), "-backend", "memory", "-log-level", "error"}
	s.Start()
	response, err := http.Post("http://"+s.address+"/storage/v1/b?project=test", "application/json", strings.NewReader(`{"name":"bucket"}`)) //nolint:noctx // a local server
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Equal(t, http.StatusOK, response.StatusCode, "%s", body)
	return s
}

// URL returns the URL of the bucket with the given prefix.
func (s *GCS) URL(prefix string) string {
	return fmt.Sprintf("gs://bucket/%s?endpoint=%s", prefix, url.QueryEscape("http://"+s.address))
}

const azureAccount = "devstoreaccount1"

// AzureKey is the key of the emulator's account.
var AzureKey = base64.StdEncoding.EncodeToString([]byte("a key of an account that a test uses, of 64 bytes like real ones"))

// Azure is an emulator of Azure Blob Storage with one container.
type Azure struct{ *server }

// StartAzure starts Azurite, and sets the environment variables that hold its credentials. It skips
// the test if Azurite is not installed.
func StartAzure(t testing.TB) *Azure {
	t.Helper()
	t.Setenv("AZURITE_ACCOUNTS", azureAccount+":"+AzureKey)
	s := &Azure{start(t, azurite)}
	s.args = []string{"--blobHost", "127.0.0.1", "--blobPort", s.port(), "--location", s.dir, "--silent", "--disableTelemetry"}
	s.Start()
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	t.Setenv("AZURE_STORAGE_ACCOUNT", azureAccount)
	t.Setenv("AZURE_STORAGE_KEY", AzureKey)
	s.createContainer()
	return s
}

// createContainer creates the container by sending a request signed with the account's key.
func (s *Azure) createContainer() {
	date := time.Now().UTC().Format(http.TimeFormat)
	key, err := base64.StdEncoding.DecodeString(AzureKey)
	require.NoError(s.t, err)
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "PUT%sx-ms-date:%s\nx-ms-version:2023-11-03\n/%s/%s/bucket\nrestype:container", strings.Repeat("\n", 12), date, azureAccount, azureAccount)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, s.Endpoint()+"/bucket?restype=container", nil)
	require.NoError(s.t, err)
	request.Header.Set("X-Ms-Date", date)
	request.Header.Set("X-Ms-Version", "2023-11-03")
	request.Header.Set("Authorization", "SharedKey "+azureAccount+":"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, errors.Join(err, response.Body.Close()))
	require.Equal(s.t, http.StatusCreated, response.StatusCode, "%s", body)
}

// Endpoint returns the URL of the account.
func (s *Azure) Endpoint() string { return "http://" + s.address + "/" + azureAccount }

// URL returns the URL of the container with the given prefix.
func (s *Azure) URL(prefix string) string {
	return fmt.Sprintf("azblob://bucket/%s?endpoint=%s", prefix, url.QueryEscape(s.Endpoint()))
}

// SharedAccessSignature returns a shared access signature for the account, valid for one hour.
func (s *Azure) SharedAccessSignature() string {
	key, err := base64.StdEncoding.DecodeString(AzureKey)
	require.NoError(s.t, err)
	until := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	const version, permissions, services, types = "2020-10-02", "rcw", "b", "o"
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s\n%s\n%s\n%s\n\n%s\n\n\n%s\n", azureAccount, permissions, services, types, until, version)
	return url.Values{"sv": {version}, "ss": {services}, "srt": {types}, "sp": {permissions}, "se": {until},
		"sig": {base64.StdEncoding.EncodeToString(sum.Sum(nil))}}.Encode()
}
