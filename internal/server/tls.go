package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"colophon/internal/safefile"
)

// tlsFiles holds the server's certificate, its key, and the authorities for client certificates.
// They are in files that can be replaced at any time.
type tlsFiles struct {
	cert, key string
	clientCA  string // empty if client certificates are not accepted
	log       *slog.Logger

	mu sync.Mutex // guards the fields below
	// seen contains the results of os.Stat from when the files were last read, even if they were
	// invalid. An element is nil if os.Stat failed.
	seen   [3]fs.FileInfo
	looked time.Time
	config *tls.Config // loaded from the last valid files
	// authorities is the set of authorities for client certificates, each in DER encoding.
	authorities map[string]bool
}

// LoadTLSFiles reads the certificate, the key, and the client authorities that config names. It
// returns an error if the files are not valid. Each handshake checks whether they have changed.
// Because a certificate and its key are never replaced at the same instant, an error in the new
// files is logged, and the last valid files stay in use.
func LoadTLSFiles(config Config, log *slog.Logger) (*tlsFiles, error) {
	f := &tlsFiles{cert: config.TLSCertFile, key: config.TLSKeyFile, clientCA: config.TLSClientCAFile, log: log}
	f.seen, f.looked = f.look(), time.Now()
	return f, f.load()
}

// server returns a TLS configuration that uses the current files for each new connection.
func (f *tlsFiles) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: f.current}
}

// trusts reports whether the file of client certificate authorities contains authority. It checks
// at most once a second whether the file has changed.
func (f *tlsFiles) trusts(authority *x509.Certificate) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) >= time.Second {
		f.refresh()
	}
	return f.authorities[string(authority.Raw)]
}

// current returns the configuration for a new connection. It is called for each handshake.
func (f *tlsFiles) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	return f.config, nil
}

// refresh reads the files again if they have changed. It is called with mu held.
func (f *tlsFiles) refresh() {
	now := f.look()
	f.looked = time.Now()
	if unchanged(f.seen, now) {
		return
	}
	f.seen = now
	if err := f.load(); err != nil {
		f.log.Error("the new certificate cannot be used; continuing with the previous one", "error", err)
		return
	}
	f.log.Info("reloaded the certificate", "valid_until", f.config.Certificates[0].Leaf.NotAfter)
}

// look returns the results of os.Stat for the certificate, the key, and the authorities. An
// element is nil if os.Stat failed.
func (f *tlsFiles) look() (infos [3]fs.FileInfo) {
	for i, path := range []string{f.cert, f.key, f.clientCA} {
		if info, err := os.Stat(path); err == nil {
			infos[i] = info
		}
	}
	return infos
}

func unchanged(before, now [3]fs.FileInfo) bool {
	for i, a := range before {
		b := now[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && !(os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()) {
			return false
		}
	}
	return true
}

// load reads the files. Clients do not need a certificate. If a client presents one, the handshake
// verifies it, and the access rules decide for each request whether it grants access. If load
// returns an error, the configuration is unchanged.
func (f *tlsFiles) load() error {
	if err := errors.Join(safefile.CheckUserFile(f.cert, false), safefile.CheckUserFile(f.key, true)); err != nil {
		return fmt.Errorf("tls-cert %s, tls-key %s: %w", f.cert, f.key, err)
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("tls-cert %s, tls-key %s: %w", f.cert, f.key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair},
	}
	if f.clientCA == "" {
		f.config = config
		return nil
	}
	if err := safefile.CheckUserFile(f.clientCA, false); err != nil {
		return fmt.Errorf("tls-client-ca: %w", err)
	}
	text, err := os.ReadFile(f.clientCA)
	if err != nil {
		return fmt.Errorf("tls-client-ca: %w", err)
	}
	authorities := certificatesIn(text)
	if len(authorities) == 0 {
		return errors.New("tls-client-ca " + f.clientCA + ": the file has no PEM certificate")
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	f.config, f.authorities = config, make(map[string]bool, len(authorities))
	for _, authority := range authorities {
		config.ClientCAs.AddCert(authority)
		f.authorities[string(authority.Raw)] = true
	}
	return nil
}

// certificatesIn returns the valid certificates in a PEM text. Like x509.CertPool, it skips other
// blocks and invalid certificates.
func certificatesIn(text []byte) (list []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, certificate)
		}
	}
	return list
}
