package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"colophon/api/limits"
	"colophon/internal/cli"
	"colophon/internal/memory"
	"colophon/internal/publish"
	"colophon/internal/safefile"
	"colophon/internal/size"
	"colophon/ledger/index"
	"colophon/proofs"
	"colophon/storage/postgres"
)

// Config holds all settings of a server. A flag overrides the environment variable with the
// corresponding name (COLOPHON_LOG_LEVEL for --log-level), a variable overrides the
// configuration file, and the file overrides the default. The file uses the names of the
// flags.
type Config struct {
	// DataDir is the folder that contains everything that must not be lost: the database in db and the
	// signing keys in keys. Its subfolder index can be rebuilt.
	DataDir string `yaml:"data"`
	// StoreURL is the URL of a PostgreSQL database that contains the log instead of the folder db.
	// The URL can contain a password.
	StoreURL string `yaml:"store"`
	// ReadOnly makes the server serve the ledgers in the database at StoreURL, or the copy at
	// CopyURL, without writing anything there. Such a server needs no signing key.
	ReadOnly bool `yaml:"read-only"`
	// CopyURL is the URL of a ledger in a published copy. CopyVerifierKey is the verifier key that the
	// copy's log must have, or the name of a file that contains the key.
	CopyURL         string `yaml:"from"`
	CopyVerifierKey string `yaml:"key"` // verifier key of the copy's log, or a file that contains it
	// TrustedKeys contains the keys that CopyVerifierKey specifies.
	TrustedKeys []*proofs.Verifier `yaml:"-"`
	// ListenAddress is the TCP address, host:port. Port 0 selects a free port.
	ListenAddress string `yaml:"listen"`
	// AdvertiseAddress is the address, host:port or a URL, at which the other servers on the same
	// store reach this one. It requires StoreURL. If it is empty, the server advertises
	// ListenAddress.
	AdvertiseAddress string `yaml:"advertise"`
	// IndexURLs lists URLs of servers with the same log, separated by commas. If the index is missing or
	// far behind its log, it starts as a copy of the first server's index. The other servers' indexes
	// must contain the same rows.
	IndexURLs string `yaml:"index-from"`
	// IndexTokenFile names a file with the token that this server sends to the servers in
	// IndexURLs. If it is empty, the environment variable COLOPHON_TOKEN, if set, is the token.
	IndexTokenFile string `yaml:"index-token-file"`
	// IndexCAFile names a PEM file with the authorities to trust for connections to the servers in
	// IndexURLs. If it is empty, the system's authorities are trusted.
	IndexCAFile string `yaml:"index-ca-file"`
	// Insecure allows the server to listen on an address that other machines can reach, even if it
	// requires no credentials. Anyone who can reach the address can then read, write, and erase
	// everything.
	Insecure bool `yaml:"insecure"`
	// AccessFile is the name of the file that defines what OpenID Connect tokens and client
	// certificates are allowed to do (access.Rules). API tokens do not need this file.
	AccessFile string `yaml:"access-file"`
	// TLSCertFile names a PEM file with the server's certificate, followed by any intermediate
	// certificates. TLSKeyFile names a PEM file with its key. The server reloads the files when
	// they change.
	TLSCertFile string `yaml:"tls-cert"`
	TLSKeyFile  string `yaml:"tls-key"` // PEM file with the private key of the certificate
	// TLSClientCAFile names a PEM file that contains the authorities that sign client certificates.
	TLSClientCAFile string `yaml:"tls-client-ca"`
	// AllowedHosts lists the host names that a server without authentication accepts, in addition to
	// localhost and loopback addresses. If it is empty, any name is accepted, unless the server
	// listens on a loopback address.
	AllowedHosts HostNames `yaml:"allow-host"`
	// MetricsListenAddress is a separate address for /metrics, host:port, without authentication.
	// If it is empty, the server serves /metrics on ListenAddress.
	MetricsListenAddress string `yaml:"metrics-listen"`
	// OTLPGRPCListenAddress is the address, host:port, on which OTLP is served over gRPC, with the
	// same access rules, certificates, and limits as on ListenAddress. If it is empty, OTLP is
	// served over HTTP only.
	OTLPGRPCListenAddress string `yaml:"otlp-grpc-listen"`
	// If ServePprof is true, the server also serves profiles of the process on
	// MetricsListenAddress, under /debug/pprof.
	ServePprof bool `yaml:"pprof"`
	// LogFormat is text or json. The log goes to standard error.
	LogFormat string `yaml:"log-format"`
	// LogLevel is the lowest level that is logged: debug, info, warn, or error.
	LogLevel logLevel `yaml:"log-level"`
	// MinFreeSpace is the amount of free disk space, in bytes, below which writes are refused with
	// status 503. 0 means 5 % of the file system, but at least 32 MiB and at most 1 GiB.
	MinFreeSpace size.Bytes `yaml:"min-free-space"`
	// DatabaseCacheSize is the size of the database's cache for uncompressed blocks, in bytes. 0
	// means a sixteenth of the memory that the process can use, but at least 64 MiB and at most 2
	// GiB.
	DatabaseCacheSize size.Bytes `yaml:"cache"`
	// IndexCacheSize is the amount of memory, in bytes, that the index uses for blocks, rows, and
	// batches. 0 means a sixteenth of the memory that the process can use, but at least 256 MiB and
	// at most 2 GiB.
	IndexCacheSize size.Bytes `yaml:"index-cache"`
	// ShutdownTimeout is how long a shutdown waits for requests in progress before it closes
	// their connections.
	ShutdownTimeout time.Duration `yaml:"shutdown-limit"`

	// WebhooksFile names a YAML file that lists the webhooks that receive messages about what the
	// ledgers record (webhook.Hook).
	WebhooksFile string `yaml:"webhooks"`

	// Settings determine whether and where the server publishes copies of its logs.
	publish.Settings `yaml:",inline"`

	// ServerLimits limits the load that clients can put on the server.
	limits.ServerLimits `yaml:",inline"`
}

func (c Config) WithDefaults() Config {
	setDefault(&c.DataDir, "data")
	setDefault(&c.ListenAddress, "127.0.0.1:8080")
	setDefault(&c.LogFormat, "text")
	setDefault(&c.ShutdownTimeout, 15*time.Second)
	setDefault(&c.PublishInterval, publish.DefaultInterval)
	setDefault(&c.RetainedEntries, publish.DefaultRetainedEntries)
	c.ServerLimits = c.ServerLimits.WithDefaults()
	return c
}

func setDefault[T comparable](to *T, value T) {
	var unset T
	if *to == unset {
		*to = value
	}
}

// validate checks the settings. The error says which setting is wrong and how to correct it.
func (c Config) validate() error {
	_, port, err := net.SplitHostPort(c.ListenAddress)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	switch {
	case err != nil:
		return fmt.Errorf("listen: %w; write host:port, such as 127.0.0.1:8080", err)
	case c.StoreURL != "" && !postgres.IsURL(c.StoreURL):
		return errors.New("store: the value is not the URL of a PostgreSQL database, such as postgres://colophon@db.example.org/colophon")
	case c.ReadOnly && c.StoreURL == "" && c.CopyURL == "":
		return errors.New("read-only: specify what to serve: --store URL, or --from URL for a published copy")
	case c.CopyURL != "" && (!c.ReadOnly || c.StoreURL != ""):
		return errors.New("from: requires --read-only, and cannot be combined with --store")
	case c.CopyURL != "" && c.CopyVerifierKey == "":
		return errors.New("key: --from requires --key, which is the verifier key published by the ledger's operator, or a file that contains it")
	case c.ReadOnly && c.BucketURL != "":
		return errors.New("publish: cannot be combined with --read-only, because a read-only server does not publish")
	case c.ReadOnly && c.WebhooksFile != "":
		return errors.New("webhooks: cannot be combined with --read-only, because a read-only server sends no messages")
	case c.AdvertiseAddress != "" && c.StoreURL == "":
		return errors.New("advertise: this setting has no effect without --store; omit it")
	case c.AdvertiseAddress != "" && advertised(c.AdvertiseAddress, "http") == "":
		return fmt.Errorf("advertise: %q is neither host:port nor the URL of a server, such as https://node1.example.org:8443", c.AdvertiseAddress)
	case (c.TLSCertFile == "") != (c.TLSKeyFile == ""):
		return errors.New("tls-cert and tls-key: set both or neither")
	case c.TLSClientCAFile != "" && c.TLSCertFile == "":
		return errors.New("tls-client-ca: set tls-cert and tls-key too")
	case c.LogFormat != "text" && c.LogFormat != "json":
		return fmt.Errorf("log-format: invalid value %q; use text or json", c.LogFormat)
	case c.IndexCacheSize != 0 && c.IndexCacheSize < index.MinMemoryBytes:
		return fmt.Errorf("index-cache: %d bytes are not enough; the index needs at least %dMiB", c.IndexCacheSize, index.MinMemoryBytes>>20)
	case c.ShutdownTimeout < 0:
		return fmt.Errorf("shutdown-limit: %s is negative", c.ShutdownTimeout)
	}
	if err := errors.Join(c.checkIndexFrom(), c.ServerLimits.Check(), c.Settings.Check()); err != nil {
		return err
	}
	if err := c.checkOTLP(); err != nil {
		return err
	}
	return c.checkObservation()
}

// logLevel is a slog.Level whose parse error lists the valid levels.
type logLevel struct{ slog.Level }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *logLevel) UnmarshalText(text []byte) error {
	if err := l.Level.UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is not a log level; it must be debug, info, warn, or error", text)
	}
	return nil
}

// Bind defines a flag for each setting.
func (c *Config) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.DataDir, "data", c.DataDir, "`folder` for the database and the keys; created if it does not exist")
	flags.StringVar(&c.StoreURL, "store", c.StoreURL, "`URL` (postgres://user@host/database) of a PostgreSQL database for the log; default: the folder of --data. If the URL contains a password, put the URL in COLOPHON_STORE, never on the command line")
	flags.BoolVar(&c.ReadOnly, "read-only", c.ReadOnly, "serve the ledgers of --store, or the published copy at --from, without writing or signing anything")
	flags.StringVar(&c.CopyURL, "from", c.CopyURL, "`URL` of a ledger in a published copy, for --read-only: file:///folder/v1/ledgers/NAME, s3://bucket/prefix/v1/ledgers/NAME?endpoint=URL, or the URL of the ledger on a web server")
	flags.StringVar(&c.CopyVerifierKey, "key", c.CopyVerifierKey, "verifier `key` that the log at --from must have, or a file that contains the key")
	flags.StringVar(&c.ListenAddress, "listen", c.ListenAddress, "`address` to listen on, host:port; port 0 selects a free port")
	flags.StringVar(&c.AdvertiseAddress, "advertise", c.AdvertiseAddress, "`address`, host:port or a URL, at which other servers on the same --store reach this one; default: the address in --listen")
	flags.StringVar(&c.IndexURLs, "index-from", c.IndexURLs, "`URLs`, separated by commas, of servers with the same log: an index that is missing or far behind is fetched from the first server, if the other servers have the same rows")
	flags.StringVar(&c.IndexTokenFile, "index-token-file", c.IndexTokenFile, "`file` that contains the token for --index-from; default: the token in the environment variable COLOPHON_TOKEN, if it is set")
	flags.StringVar(&c.IndexCAFile, "index-ca-file", c.IndexCAFile, "PEM `file` of the CAs to trust for --index-from in place of the system's")
	flags.BoolVar(&c.Insecure, "insecure", c.Insecure, "allow an address that other machines can reach, without authentication")
	flags.StringVar(&c.AccessFile, "access-file", c.AccessFile, "YAML `file` that says what OpenID Connect tokens and client certificates may do")
	flags.StringVar(&c.TLSCertFile, "tls-cert", c.TLSCertFile, "PEM `file` of the server's certificate; with it, the server uses https")
	flags.StringVar(&c.TLSKeyFile, "tls-key", c.TLSKeyFile, "PEM `file` of the certificate's key")
	flags.StringVar(&c.TLSClientCAFile, "tls-client-ca", c.TLSClientCAFile, "PEM `file` of the CAs that sign client certificates")
	flags.TextVar(&c.AllowedHosts, "allow-host", c.AllowedHosts, "`names`, separated by commas, that a server without authentication accepts in the Host header in addition to localhost; default: none if it listens on loopback, otherwise any")
	flags.StringVar(&c.MetricsListenAddress, "metrics-listen", c.MetricsListenAddress, "separate `address`, host:port, that serves /metrics without authentication")
	flags.StringVar(&c.OTLPGRPCListenAddress, "otlp-grpc-listen", c.OTLPGRPCListenAddress, "`address`, host:port, that serves OTLP over gRPC, usually with port 4317; default: OTLP over HTTP only, on --listen")
	flags.BoolVar(&c.ServePprof, "pprof", c.ServePprof, "serve /debug/pprof on --metrics-listen")
	flags.StringVar(&c.LogFormat, "log-format", c.LogFormat, "`format` of the log on stderr: text or json")
	flags.TextVar(&c.LogLevel, "log-level", c.LogLevel, "lowest `level` that is logged: debug, info, warn, or error")
	flags.TextVar(&c.MinFreeSpace, "min-free-space", c.MinFreeSpace, "`size` of free disk space below which the server refuses writes with status 503; 0 means 5 % of the file system, but at least 32MiB and at most 1GiB")
	flags.TextVar(&c.DatabaseCacheSize, "cache", c.DatabaseCacheSize, "`size` of the database's block cache; 0 means a sixteenth of the memory, but at least 64MiB and at most 2GiB")
	flags.TextVar(&c.IndexCacheSize, "index-cache", c.IndexCacheSize, "`size` of what the index keeps in memory: blocks, rows, and batches; 0 means a sixteenth of the memory, but at least 256MiB and at most 2GiB")
	flags.DurationVar(&c.ShutdownTimeout, "shutdown-limit", c.ShutdownTimeout, "`time` that a shutdown waits for requests in progress")
	flags.StringVar(&c.WebhooksFile, "webhooks", c.WebhooksFile, "YAML `file` with the receivers of messages about mismatches, drift, stale citations, gaps, and index problems")
	c.Settings.Bind(flags)
	c.ServerLimits.Bind(flags)
}

// ResolveConfig returns the settings from the file at path, the environment, and the command line.
// Flags given on the command line override the environment, and the environment overrides the file.
// If path is empty, there is no file.
func ResolveConfig(path string, env func(string) (string, bool), given *pflag.FlagSet) (Config, error) {
	config := Config{}.WithDefaults()
	if path != "" {
		if err := config.readFile(path); err != nil {
			return config, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags)
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if own := given.Lookup(f.Name); own.Changed {
			errs = append(errs, flags.Set(f.Name, own.Value.String()))
			return
		}
		name := "COLOPHON_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, set := env(name); set && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, cli.ExplainEnvError(name, err))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return config, err
	}
	page := config.MaxPageRows
	config = config.WithDefaults()
	config.MaxPageRows = page // keeps an explicit 0, which validate refuses
	return config, config.validate()
}

// goType matches the names of Go types in errors of the YAML library.
var goType = regexp.MustCompile(` (in type|into) [\[\]*]*[a-z]+\.\w+`)

// readFile reads a YAML file into c. Settings that are not in the file keep their values. An
// unknown setting is an error.
func (c *Config) readFile(path string) error {
	text, err := safefile.ReadUserFile(path, false)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err = decoder.Decode(c)
	if wrong := (*yaml.TypeError)(nil); errors.As(err, &wrong) {
		// Leave out Go's types, which mean nothing to the author of the file.
		return errors.New(goType.ReplaceAllString(strings.Join(wrong.Errors, "; "), ""))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := decoder.Decode(new(Config)); !errors.Is(err, io.EOF) {
		return errors.New("the file contains more than one YAML document")
	}
	return nil
}

// minCache is the lower bound of the default size of the block cache, in bytes. It is not a
// recommendation. If randomly read data does not fit in the cache, the slowest responses take longer. A
// ledger of a million records needs a cache of more than 1 GiB.
const minCache = 64 << 20

// WithDefaultCacheSizes returns c with a default size for each cache whose size is not configured.
// The default is a share of usable, which is the usable memory in bytes.
func (c Config) WithDefaultCacheSizes(usable uint64) Config {
	setDefault(&c.DatabaseCacheSize, size.Bytes(memory.CacheSize(usable, 16, minCache)))
	setDefault(&c.IndexCacheSize, size.Bytes(memory.CacheSize(usable, 16, index.DefaultMemoryBytes)))
	return c
}
